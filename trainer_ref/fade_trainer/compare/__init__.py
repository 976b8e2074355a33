"""The reference experiment: many methods, learning rates and seeds through the service, and what came of it.

`methods` says what is compared, `cells` in which combinations, `work` trains one of them, `runner` all of them over all cores,
`results` keeps what they came to, `statistics`, `figures` and `report` read it.
"""
