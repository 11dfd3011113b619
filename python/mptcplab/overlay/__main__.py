"""The process of an overlay, which `mptcplab overlay up` starts."""

import sys

from mptcplab.overlay.process import main

sys.exit(main())
