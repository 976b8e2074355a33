"""A policy-gradient loop in plain torch under the FADE schedule. FADE_ADDRESS and FADE_RUN say where the service is."""

import torch

from fade_client import FadeClient

PROMPTS, ANSWERS, ROLLOUTS, STEPS = 16, 8, 8, 60


def train(fade: FadeClient) -> torch.nn.Module:
    torch.manual_seed(0)
    right, policy = torch.randint(ANSWERS, (PROMPTS,)), torch.nn.Embedding(PROMPTS, ANSWERS)
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.1)
    prompts = torch.arange(PROMPTS).repeat_interleave(ROLLOUTS)
    for step in range(STEPS):
        choice = torch.distributions.Categorical(logits=policy(prompts))
        answers = choice.sample()
        rewards = (answers == right[prompts]).float()
        entropy = (choice.entropy().sum().item(), len(prompts))  # nats and tokens; here an answer is one token
        schedule = fade.observe(f"step-{step}", rewards=rewards, groups=prompts, entropy=entropy, trainer_step=step)
        advantages = schedule.advantages(rewards, prompts)
        loss = -(advantages * choice.log_prob(answers)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, f"solved {rewards.mean():.2f}", schedule.metrics())
    return policy


if __name__ == "__main__":
    with FadeClient() as client:
        train(client)
