"""Networks as they lie about in research code: a class count, channels, no types."""

from torch import nn


class SmallConvNet(nn.Module):
    def __init__(self, in_channels=3, num_classes=10, width=16):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(in_channels, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
        )
        self.head = nn.Linear(2 * width, num_classes)

    def forward(self, x):
        return self.head(self.body(x).flatten(1))


def Perceptron(num_classes, in_channels=3, image_size=32, hidden=64):
    inputs = in_channels * image_size**2
    return nn.Sequential(
        nn.Flatten(), nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, num_classes)
    )
