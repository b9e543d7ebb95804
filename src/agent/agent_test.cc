int unused = 0;
