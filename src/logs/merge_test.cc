int unused_merge=0;
