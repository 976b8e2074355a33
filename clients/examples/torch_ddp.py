"""The same loop on several processes: torchrun --nproc-per-node 2 torch_ddp.py. One report per step, from the first rank."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from fade_client import FadeClient

PROMPTS, ANSWERS, ROLLOUTS, STEPS = 16, 8, 8, 60


def gathered(rows: torch.Tensor) -> torch.Tensor:
    parts = [torch.empty_like(rows) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, rows)
    return torch.cat(parts)


def train(fade: FadeClient) -> torch.nn.Module:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    right, policy = torch.randint(ANSWERS, (PROMPTS,)), DistributedDataParallel(torch.nn.Embedding(PROMPTS, ANSWERS))
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.1)
    prompts = torch.arange(PROMPTS).repeat_interleave(ROLLOUTS // ranks)  # each rank has a part of every group
    torch.manual_seed(rank)
    for step in range(STEPS):
        choice = torch.distributions.Categorical(logits=policy(prompts))
        answers = choice.sample()
        rewards, groups = gathered((answers == right[prompts]).float()), gathered(prompts)
        entropy = torch.stack([choice.entropy().sum().detach(), torch.tensor(float(len(prompts)))])
        dist.all_reduce(entropy)
        schedule = fade.observe(
            f"step-{step}", rewards=rewards, groups=groups, entropy=tuple(entropy), trainer_step=step, process_group=True
        )
        advantages = schedule.advantages(rewards, groups).chunk(ranks)[rank]
        loss = -(advantages * choice.log_prob(answers)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(step, f"solved {rewards.mean():.2f}", schedule.metrics())
    return policy


if __name__ == "__main__":
    dist.init_process_group("gloo")
    with FadeClient() as client:
        final = train(client)
    print(f"rank {dist.get_rank()} ends with weights of norm {final.module.weight.norm():.9f}", flush=True)
    dist.destroy_process_group()
