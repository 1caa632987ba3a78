/* The driver's chip query (libdrvdsmi_host.so), by which mx_driving chooses its operator library. */
#include <string.h>

enum { FIELD_SIZE = 32 };

struct ChipInformation {
    char type[FIELD_SIZE];
    char name[FIELD_SIZE];
    char version[FIELD_SIZE];
};

int dsmi_get_chip_info(int device, struct ChipInformation *information) {
    (void)device;
    memset(information, 0, sizeof *information);
    strcpy(information->type, "Ascend");
    strcpy(information->name, "910B3");
    return 0;
}
