int unused_utf8=0;
