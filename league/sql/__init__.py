"""Migrations (`001_initial.sql`, ...) and named queries of the store, one `.sql` file each."""
