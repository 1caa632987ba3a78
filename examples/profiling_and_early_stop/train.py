"""An ordinary training program, which knows nothing of the patcher: five epochs, sixteen steps each."""

import torch


def main():
    torch.manual_seed(0)
    images, labels = torch.randn(64, 3, 8, 8), torch.randint(0, 4, (64,))
    data = torch.utils.data.TensorDataset(images, labels)
    loader = torch.utils.data.DataLoader(data, batch_size=4)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(288, 4)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    step = 0
    try:
        for _ in range(5):
            for batch, target in loader:
                loss = torch.nn.functional.cross_entropy(model(batch), target)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                step += 1
                print(f"step {step}: loss {loss.item():.6f}")
    finally:
        torch.save(model.state_dict(), "model.pt")
        print(f"saved after {step} steps")


if __name__ == "__main__":
    main()
