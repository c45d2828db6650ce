package config

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/prescient-go/prescient/internal/uri"
)

// Store is one schema of one database, or, with a pattern, each schema of a database that has the
// tables: one for each tenant, service or shard. Where there are none, Config.Database is the only
// one.
type Store struct {
	// Name identifies the store in logs, in metrics and in --store. It has 1 to 63 lower-case
	// letters, digits, _ and -, and must be set.
	Name string `mapstructure:"name"`

	// URL is where the database is, as Database.URL. Default: empty, database.url.
	URL URL `mapstructure:"url"`

	// Schema holds the tables. With a * for any letters it stands for each schema with such a name
	// that holds the tables; the name of each is then NAME/SCHEMA. Default: empty, database.schema.
	Schema string `mapstructure:"schema"`

	// Source is the CloudEvents source of the events of the store, as Events.Source. A pattern must not have one: its
	// stores would look like one store. Default: empty, events.source.
	Source string `mapstructure:"source"`

	// Owner is a role that may own the schemas of a pattern, beside superusers, the owner of the database, the login and
	// the role SCHEMA_owner. A schema of another role is an error. Default: empty.
	Owner string `mapstructure:"owner"`
}

// Database is where a store is, with the settings of c where it has none of its own.
func (s Store) Database(c Config) Database {
	url := s.URL
	if url.Reveal() == "" {
		url = c.Database.URL
	}
	return Database{URL: url, Schema: cmp.Or(s.Schema, c.Database.Schema), Prepare: c.Database.Prepare}
}

// IsPattern tells whether the schema stands for several.
func (s Store) IsPattern() bool { return strings.Contains(s.Schema, "*") }

var (
	storeName     = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)
	schemaPattern = regexp.MustCompile(`^[a-z_*][a-z0-9_*]*$`)
)

// storeRules has one entry for every setting of a Store.
var storeRules = map[string]rule[Store]{
	"name": {
		"1 to 63 lower-case letters, digits, _ and -",
		func(s Store) bool { return storeName.MatchString(s.Name) && len(s.Name) <= maxName },
	},
	"url": {rules["database.url"].want, func(s Store) bool { return isDatabase(s.URL) }},
	"schema": {
		rules["database.schema"].want + ", or a pattern of such, with a * for any letters",
		func(s Store) bool {
			return s.Schema == "" || schemaPattern.MatchString(s.Schema) && len(s.Schema) <= maxName &&
				!strings.HasPrefix(s.Schema, "pg_")
		},
	},
	"source": {
		"empty, or a URI reference, such as https://shop.example.com/orders; for a schema with a *, empty",
		func(s Store) bool { return s.Source == "" || uri.IsReference(s.Source) && !s.IsPattern() },
	},
	"owner": {
		"empty, or a role of the server; for a schema without a *, empty",
		func(s Store) bool { return s.Owner == "" || len(s.Owner) <= maxName && s.IsPattern() },
	},
}

// duplicateStores returns an error for each store that has the name, or the place, of one before
// it: its slots would be run twice.
func (s sources) duplicateStores(c *Config) (problems []error) {
	names, places := map[string]entryRef{}, map[string]entryRef{}
	for i, store := range c.Stores {
		at := entryRef{"stores", i + 1, store.Name}
		if before, taken := names[store.Name]; taken && store.Name != "" {
			problems = append(problems, fmt.Errorf("set name of %s from file %s: %s has the name already", at, s.file, before))
		}
		database := store.Database(*c)
		where := database.URL.Reveal() + " " + database.Schema
		if before, taken := places[where]; taken {
			problems = append(problems,
				fmt.Errorf("set schema of %s from file %s: it is the schema %s of the database of %s, and a store is listed once",
					at, s.file, database.Schema, before))
		}
		names[store.Name], places[where] = at, at
	}
	return problems
}
