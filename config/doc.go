// Package config holds the settings of the prescient command as one struct.
//
// [Load] reads every setting from four sources. A later one wins:
//
//  1. the default, see [Default];
//  2. one configuration file: the FILE of --config or PRESCIENT_CONFIG, else the first that exists of
//     ./prescient.yaml, $XDG_CONFIG_HOME/prescient/prescient.yaml (~/.config when that is unset) and
//     /etc/prescient/prescient.yaml. Having none is fine; naming one that cannot be read is an error;
//     a file that another user may have written is an error when it is named, and is skipped with a
//     warning in a default place;
//  3. the environment: run.job_name is PRESCIENT_RUN_JOB_NAME. An empty variable counts as unset;
//  4. a flag given on the command line, see [Flags], [RunFlags] and their kin. An empty one counts as given.
//
// A file counts when its owner is the user who runs the command, or root, and no other user may
// write to it. The same owner is asked of a symbolic link at its path. A group may write whose
// number is the owner's: the private group of a user.
//
// A file is YAML (.yaml, .yml), TOML (.toml) or JSON (.json). A setting of several values, such as
// events.allowed_networks, may be a list there. This one spells out the defaults.
// The fields of the sections, such as [Run], say what each setting means:
//
//	database:
//	  url: ""
//	  schema: prescient
//	  prepare: auto
//	slots:
//	  width: 0s
//	run:
//	  workers: 64
//	  connections: 8
//	  stores: 4
//	  shard: ""
//	  page: 2000
//	  lease: 1m
//	  grace: 20s
//	  start_tolerance: 5s
//	  job_name: ""
//	  ping_url: ""
//	jobs:
//	  horizon: 43800h
//	  max_payload: 65536
//	events:
//	  destination: "outbox:"
//	  source: ""
//	  secret: ""
//	  allowed_networks: ""
//	  max_refusals: 0
//	  max_refused_for: 0s
//	  after_dead_letter: hold
//	server:
//	  listen: ""
//	  token: ""
//	  read_token: ""
//	  hosts: ""
//	  proxy: "off"
//	  proxy_networks: ""
//	spool:
//	  dir: ""
//	history:
//	  retention: 0s
//	alerts:
//	  receiver: ""
//	  repeat: 4h
//	metrics:
//	  file: ""
//	log:
//	  level: info
//	  format: text
//
// Two more sections, of the file alone, bind jobs to what is not Go. They are lists, since the name of a job may have
// dots and capitals; in TOML:
//
//	[[http_jobs]]                # see package jobs/httpjob
//	name = "invoice.overdue"
//	url = "https://billing.example.com/checks"
//	secret = ""                  # empty: events.secret
//	timeout = "30s"              # of one request
//	batch_size = 500             # rows in one request
//	concurrency = 4              # requests at once
//	max_checks = 5
//	retry = 5
//	deadline = "0s"              # 1h: a row that cannot be checked within an hour after its slot ends unchecked
//	sla = "0s"                   # 5m: how long after its slot a check is to begin at the latest
//	within = "0s"                # 1h: any slot of an hour will do for a next check
//
//	[[sql_jobs]]                 # see package jobs/sqljob
//	name = "order.unshipped"
//	query = """
//	  select id::text as entity_key, jsonb_build_object('customer', customer) as event
//	  from orders where id = any ($1::bigint[]) and shipped_at is null"""
//	database = ""                # empty: the database of the jobs
//	role = ""                    # empty: the user of the database
//	type = ""                    # of the events; empty: the name
//	timeout = "30s"              # statement_timeout
//	batch_size = 0               # keys in one query; 0: as many as run.page
//	concurrency = 2              # batches at once
//	max_checks = 5
//	retry = 5
//	deadline = "0s"              # 1h: a row that cannot be checked within an hour after its slot ends unchecked
//	sla = "0s"                   # 5m: how long after its slot a check is to begin at the latest
//	within = "0s"                # 1h: any slot of an hour will do for a next check
//
// One more list, [[stores]], is for a team that has several schemas or databases. Only the file can
// hold it. Each store has a name, a url (empty: database.url) and a schema (empty: database.schema;
// or a pattern, such as tenant_*); see [Store].
//
// The sections events.destinations and receivers, of the file alone, too, have a name for each entry; see [Destination]
// and [Receiver].
//
// Nothing is guessed: a key that the file misspells, a number without its unit and a value out of range are
// errors that name the key, its source and the rule, all of them at once.
//
// Secrets stay secret. No flag takes a password. [Secret], [URL] and [Endpoint] hide it wherever they are printed,
// logged or marshalled, and [Redact] does so for other connection strings.
package config
