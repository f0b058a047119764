/* A bot of tic-tac-toe in C, by the protocol of docs/guides/programs.md: the centre, then corners, then edges.
   cc -O2 -o bot examples/bot.c
   league evaluate bot:c --against bot:hasty --env examples/tictactoe.py --bot c=program:./bot */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    static const int order[] = {4, 0, 2, 6, 8, 1, 3, 5, 7};
    static char line[1 << 16];
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof line, stdin)) {
        if (strncmp(line, "{\"start\":", 9) == 0) puts("{\"ready\":1}");
        if (strncmp(line, "{\"act\":", 7) != 0) continue; /* a reset: nothing to forget */
        const char *mask = strstr(line, "\"mask\":[") + 8;
        int i = 0;
        while (mask[2 * order[i]] != '1') i++;
        printf("{\"act\":%d,\"action\":[%d]}\n", atoi(line + 7), order[i]);
    }
}
