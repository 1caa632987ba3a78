from migrate_to_ascend.patch import configure_patcher
from mx_driving.patcher import default_patcher

configure_patcher(default_patcher).apply(allow_internal_format=False)

import torch
import zoo
from detector import Detector

assert zoo.Detector is Detector and "Detector" in zoo.__all__
net = Detector()
x = torch.randn(4, 3)
assert torch.equal(net(x), net.conv(x) * 2)
net(x).sum().backward()
default_patcher.print_info()
print("trained a step")
