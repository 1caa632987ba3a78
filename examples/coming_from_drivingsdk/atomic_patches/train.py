import geometry
import torch
from geometry import turn
from migrate_to_ascend.patch import PATCHES, apply_each

results, PatchStatus = apply_each()
assert results["geometry.rotate"] == (PatchStatus.APPLIED, "")
assert results["geometry.Box.shrunk"][0] is PatchStatus.SKIPPED
assert [patch.is_applied for patch in PATCHES] == [True, True, True, True, False]
assert PATCHES[0].name == PATCHES[0].target == "geometry.rotate" and PATCHES[0].module == "geometry"

quarter = torch.tensor(torch.pi / 2)
for function in (geometry.rotate, geometry.turn, turn):
    assert torch.allclose(
        function(torch.tensor([[1.0, 0.0]]), quarter), torch.tensor([[0.0, 1.0]]), atol=1e-6
    )
assert torch.equal(geometry.Box.area(torch.tensor([[2.0, 3.0]])), torch.tensor([6.0]))
assert geometry.Box.area(torch.tensor([2.0, 3.0, 4.0])) == 6
assert geometry.Box.unit().tolist() == [2, 2] and geometry.Box().scaled(3) == 8
info = PATCHES[0].get_info(show_diff=True)
assert info.startswith("geometry.rotate: geometry.rotate -> migrate_to_ascend.patch.rotate\n")
assert '-    raise RuntimeError("no CUDA device")' in info
print("trained a step")
