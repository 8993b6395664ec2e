"""Engine of PyTorch: the processes that the host starts with `torchrun` and speaks to over a socket.

The engine loads a model of transformers, shards it with FSDP2, scores and samples tokens, and takes weighted gradients
back. Objectives, advantages and schedules are computed by the host.
"""
