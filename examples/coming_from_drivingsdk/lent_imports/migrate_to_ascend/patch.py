from mx_driving.patcher import AtomicPatch, with_imports

made = 0


@with_imports(("heads", "BaseHead", "Head"))
def __init__(self, channels):
    global made
    made += 1
    super(Head, self).__init__(channels)


@staticmethod
@with_imports(("torch", "sigmoid", "exp"))
def decode(x):
    return sigmoid(x) + exp(-x)


@with_imports("torch.nn.functional", ("torch", "zeros_like"), "@heads.doubling", "heads")
def loss(self, x):
    return functional.mse_loss(x, zeros_like(x))


@with_imports(
    ("torch", "Tensor"), apply_decorators=[("torch.autocast", {"device_type": "cpu", "enabled": False})]
)
def call(self, x):
    assert isinstance(x, Tensor)
    return self.forward(x)


def configure_patcher(patcher):
    return patcher.add(
        AtomicPatch("heads.Head.__init__", __init__),
        AtomicPatch("heads.Head.decode", decode),
        AtomicPatch("heads.Head.loss", loss),
        AtomicPatch("heads.Head.__call__", call),
    )
