"""Before torch multiplies anything."""

import os

# Some virtual machines announce AMX and then kill the process that uses it, as soon as matrices of half precision are
# multiplied. oneDNN reads this once, when it is first needed.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")
