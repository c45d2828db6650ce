delete from prescient.event_consumer
where name = $1
returning name
