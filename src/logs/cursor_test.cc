int unused_cursor=0;
