int unused_record=0;
