import mmcv
from mx_driving.patcher import ensure_mmcv_version, get_version
from mx_driving.patcher.version import check_version, is_mmcv_v1x, is_mmcv_v2x, mmcv_version

assert mmcv_version and mmcv_version.available and mmcv_version.has_mmcv and mmcv_version.has_mmengine
assert mmcv_version.is_v2x and not mmcv_version.is_v1x and is_mmcv_v2x and not is_mmcv_v1x()
assert mmcv_version().version == mmcv_version.version == mmcv.__version__ == get_version("mmcv-lite")
assert check_version("mmengine", major=0) and not check_version("mmcv-lite", major=1)
assert get_version("no-such-library") is None

real, mmcv.__version__ = mmcv.__version__, "9.9.9"
ensure_mmcv_version("9.9.9")
assert mmcv.__version__ == "9.9.9"
ensure_mmcv_version("2.1.0")
import mmdet

assert mmcv.__version__ == "9.9.9" and mmdet.__version__
mmcv.__version__ = real
print("trained a step")
