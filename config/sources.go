package config

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// sources is where values come from. Viper merges them by precedence; the rest remembers whose they are.
type sources struct {
	*viper.Viper
	file    string
	skipped []Skipped
	flags   map[string]*pflag.Flag
}

// open reads the configuration file and attaches the environment and the flags. It can be used even with problems.
func open(flags map[string]*pflag.Flag, places []string) (sources, []error) {
	from := sources{Viper: viper.New(), flags: flags}
	var problems []error
	// That of a shell variable without a value would choose another file, or the private PostgreSQL.
	for _, key := range []string{"config", "database.url"} {
		if flag := flags[key]; flag != nil && flag.Value.String() == "" {
			problems = append(problems, fmt.Errorf("flag --%s is empty: give a value, or leave the flag out", flag.Name))
		}
	}
	path, by, skipped := findFile(flags["config"], places)
	from.skipped = skipped
	if path != "" {
		file, err := readFile(from.Viper, path)
		if err != nil {
			problems = append(problems, fmt.Errorf("read configuration file %s named by %s: %w", file, by, err))
		}
		from.file = file
		problems = append(problems, unknownKeys(from.Viper, file)...)
	}
	for key := range fields(new(Config)) {
		problems = append(problems, from.attach(key))
	}
	return from, problems
}

// attach binds the variable and the flag of a key, each by name: viper's AutomaticEnv would let a stray PRESCIENT_RUN
// hide the whole section run of the file.
func (s sources) attach(key string) error {
	if err := s.BindEnv(key, variable(key)); err != nil {
		return fmt.Errorf("bind %s: %w", variable(key), err)
	}
	if flag := s.flags[key]; flag != nil {
		if err := s.BindPFlag(key, flag); err != nil {
			return fmt.Errorf("bind flag --%s: %w", flag.Name, err)
		}
	}
	return nil
}

// origin tells which source gives a key its value.
func (s sources) origin(key string) string {
	switch flag := s.flags[key]; {
	case flag != nil:
		return "flag --" + flag.Name
	case os.Getenv(variable(key)) != "":
		return "environment " + variable(key)
	case s.InConfig(key):
		return "file " + s.file
	default:
		return "default"
	}
}

// read sets the field of c that belongs to key, when a source has a value for it, and checks the rule.
func (s sources) read(key string, field any, c *Config) error {
	value := s.Get(key)
	if value == nil {
		return nil
	}
	if !set(field, value) || !rules[key].holds(*c) {
		return fmt.Errorf("set %s from %s: got %s, want %s", key, s.origin(key), printable(field, value), rules[key].want)
	}
	if hidden, ok := field.(secretive); ok && s.flags[key] != nil && hidden.hasSecret() {
		return fmt.Errorf("set %s from %s: %w", key, s.origin(key), errPasswordFlag(key))
	}
	return nil
}

// errPasswordFlag is the error of a flag that has a password in it.
func errPasswordFlag(key string) error {
	return errors.New("the value contains a password, which every user of this machine can see in the process list; " +
		"put the URL into " + variable(key) + " or the configuration file, " +
		"or leave the password to PGPASSFILE (~/.pgpass) or a service file")
}

// secretive is a pointer to a field that may hold a secret.
type secretive interface{ hasSecret() bool }

// printable returns a refused value for a message, unless it may hold a password.
func printable(field, value any) string {
	_, hidden := field.(secretive)
	text := fmt.Sprint(value)
	if hidden || secretValue.MatchString(text) {
		return "a value not shown here, as it may hold a password"
	}
	return fmt.Sprintf("%q", text)
}
