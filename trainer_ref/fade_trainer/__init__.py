"""The reference torch trainer: learns a countdown task by RL on the advantages of a FADE schedule.

Importing this package does not import torch; `fade_trainer.train.train` is the loop itself.
"""

from fade_trainer.config import TrainConfig, TrainConfigError, TrainResult

__all__ = ["TrainConfig", "TrainConfigError", "TrainResult"]
