from mx_driving.patcher import Patch, default_patcher_builder


def batch_norm(model, options):
    inner = model.batch_norm

    def in_full_precision(x):
        return inner(x.float()).to(x.dtype) + options["shift"]

    model.batch_norm = in_full_precision


def point_net(registry, options):
    import model

    class PointNetNPU(model.PointNet):
        pass

    registry.MODELS.register_module(name="PointNet", force=True, module=PointNetNPU)


def removed(model, options):
    if hasattr(model, "voxel_encoder"):
        model.voxel_encoder.forward = None


default_patcher_builder.add_module_patch("mmengine.registry", Patch(point_net))
default_patcher_builder.add_module_patch("model", Patch(batch_norm, {"shift": 1.0}), Patch(removed))
default_patcher_builder.disable_patches("msda", "index", "batch_matmul")
