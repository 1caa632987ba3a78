from mx_driving.patcher import Patch, PatcherBuilder, batch_matmul, numpy_type
from mx_driving.patcher import index as boolean_index

order = []


def nms(cuda_ops, options):
    def replacement(boxes, scores, threshold):
        order.append("nms")
        return scores.sort(descending=True).indices[: options["keep"]]

    cuda_ops.nms = replacement


def index(cuda_ops, options):
    cuda_ops.index = lambda table, rows: table[rows]


def generate_patcher_builder():
    return (
        PatcherBuilder()
        .add_module_patch("numpy", Patch(numpy_type))
        .add_module_patch("torch", Patch(boolean_index), Patch(batch_matmul, priority=1))
        .add_module_patch("network.cuda_ops", Patch(nms, {"keep": 3}, priority=2), Patch(index))
        .add_module_patch("network.never_written", Patch(index, patch_failure_warning=False))
    )
