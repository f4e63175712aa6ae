"""Compilers and cubin files: find the tools, run them, take an ELF image apart.

``toolchain`` runs NVRTC, the PTX assembler and nvdisasm; ``cache`` keeps their answers on disk;
``elf`` reads sections, ``.nv.info`` attributes, symbols and relocations; ``lines`` reads the DWARF
line table.  ``gpusim.program`` puts the parts together.
"""
