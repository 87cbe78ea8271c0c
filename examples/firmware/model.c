/* The model, byte for byte, among the constants: it is read where it lies. */
__asm__(
    ".section .model, \"a\"\n"
    ".balign 64\n"
    ".global firmware_model\n"
    "firmware_model:\n"
    ".incbin \"" FIRMWARE_MODEL_FILE
    "\"\n"
    ".global firmware_model_end\n"
    "firmware_model_end:\n"
    ".byte 0\n"
    ".section .note.GNU-stack, \"\", %progbits\n");
