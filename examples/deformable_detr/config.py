"""mmdet's own Deformable DETR, made small enough to learn one photograph on a CPU in half a minute."""

_base_ = "mmdet::deformable_detr/deformable-detr_r50_16xb2-50e_coco.py"

classes = ("person", "tie")

model = dict(
    num_queries=40,
    backbone=dict(
        depth=18, frozen_stages=-1, norm_cfg=dict(requires_grad=True), norm_eval=False, init_cfg=None
    ),
    neck=dict(in_channels=[128, 256, 512]),
    encoder=dict(num_layers=2),
    decoder=dict(num_layers=2),
    bbox_head=dict(num_classes=len(classes)),
    test_cfg=dict(max_per_img=10),
)

load = dict(type="LoadImageFromFile")
resize = dict(type="Resize", scale=(160, 188), keep_ratio=True)
pack = dict(type="PackDetInputs", meta_keys=("img_id", "img_path", "ori_shape", "img_shape", "scale_factor"))
train_pipeline = [load, dict(type="LoadAnnotations", with_bbox=True), resize, pack]
test_pipeline = [load, resize, pack]

train_dataloader = dict(
    batch_size=1,
    num_workers=0,
    persistent_workers=False,
    sampler=dict(_delete_=True, type="InfiniteSampler"),
    batch_sampler=None,
    dataset=dict(_delete_=True, type="CocoDataset", metainfo=dict(classes=classes), pipeline=train_pipeline),
)
val_dataloader = val_cfg = val_evaluator = None
test_dataloader = test_cfg = test_evaluator = None

optim_wrapper = dict(optimizer=dict(lr=5e-4))
param_scheduler = []
train_cfg = dict(_delete_=True, type="IterBasedTrainLoop", max_iters=30)
default_hooks = dict(checkpoint=None)
log_processor = dict(by_epoch=False)
log_level = "WARNING"
randomness = dict(seed=0)
