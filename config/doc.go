// Package config holds the settings of the prescient command as one struct.
//
// [Load] reads every setting from four sources. A later one wins:
//
//  1. the default, see [Default];
//  2. one configuration file: the FILE of --config or PRESCIENT_CONFIG, else the first that exists of
//     ./prescient.yaml, $XDG_CONFIG_HOME/prescient/prescient.yaml (~/.config when that is unset) and
//     /etc/prescient/prescient.yaml. Having none is fine; naming one that cannot be read is an error;
//  3. the environment: run.job_name is PRESCIENT_RUN_JOB_NAME. An empty variable counts as unset;
//  4. a flag given on the command line, see [Flags] and [RunFlags]. An empty one counts as given.
//
// A file is YAML (.yaml, .yml), TOML (.toml) or JSON (.json). This one spells out the defaults:
//
//	database:
//	  url: ""              # empty: the private PostgreSQL that prescient runs itself
//	  schema: prescient
//	slots:
//	  width: 0s            # 0: whatever the database says
//	run:
//	  workers: 64          # checks at once
//	  connections: 8       # checks with a transaction at once
//	  page: 1000           # rows at once
//	  lease: 1m
//	  grace: 20s
//	  early: 5s
//	  claim_delay: 0s      # when all cores are in use; 0: claim at once
//	  job_name: ""         # a Kubernetes Job's name
//	jobs:
//	  horizon: 43800h      # 5 years
//	  max_payload: 65536   # bytes
//	history:
//	  keep: 0s             # 0: everything; or 90d
//	log:
//	  level: info
//	  format: text
//
// Nothing is guessed: a key that the file misspells, a number without its unit and a value out of range are
// errors that name the key, its source and the rule, all of them at once.
//
// Secrets stay secret. No flag takes a password. [URL] shows the connection without it wherever it is printed,
// logged or marshalled, and [Redact] does so for other connection strings.
package config
