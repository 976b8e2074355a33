"""Who may do what: TLS, tokens with a project and a role, quotas, limits, and the audit log. All of it is off by default."""
