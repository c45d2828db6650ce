-- Reports whether the server is a standby.
-- Called by cmd/internal/doctor.standby.
select pg_is_in_recovery()
