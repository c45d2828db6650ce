package installcmd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/doctor"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/install"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/jobs/schedule/crontab"
)

type crontabOptions struct {
	installOptions
	file   string
	apply  bool
	remove bool
}

func newCmdCrontab(f *factory.Factory, runF factory.Run[*crontabOptions]) *cobra.Command {
	var o crontabOptions
	c := f.WithOutput(&cobra.Command{
		Use:   "crontab",
		Short: "Print or install a crontab that runs this binary at each slot, and catches up",
		Long: `Print a crontab that runs this binary at each slot, catches up after the run, and mails problems. The crontab
names the configuration file that this command has read, because cron does not see the environment of this shell.

  --apply       Put the lines into the crontab of the user who runs this command, as a block between two marks. This
                replaces the block of the same binary, configuration file and --store, and keeps every other line. It
                shows what changes. If nothing changes, it writes nothing.
  --remove      Remove that block. If the crontab has nothing else, remove the crontab.
  --write FILE  Write the lines into a new file of /etc/cron.d. They name the --user that runs them. A file that exists
                and is different is not changed. If this machine has no such user, or the user cannot read the
                configuration file, nothing is written. Cron mails what the lines print to root: edit MAILTO in the file
                to change this.

A command that fails changes nothing.

` + widthHelp + `
Slots are instants in UTC, and cron uses the time zone of the machine. Summer time, or a width that does not divide an
hour, may make the two differ. Then the lines start runs more often, and a run that finds its slot done does nothing.
The same is true if the user's crontab sets a CRON_TZ above the lines, which some crons obey.
Slots that do not begin at a full minute need the daemon.`,
		Example: `  prescient install crontab --apply
  prescient install crontab --user orders --write /etc/cron.d/` + f.Name + `
  prescient install crontab --width 15m --timezone Europe/Berlin`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return runF(c.Context(), f, &o)
		},
	})
	o.flags(f, c)
	o.binaryFlag(c)
	fs := c.Flags()
	fs.StringVar(&o.User, "user", "",
		"`USER` that the lines of a file in /etc/cron.d name; default: the lines are for a user's crontab, which names none")
	fs.StringVar(&o.timezone, "timezone", "", "`ZONE` of cron's clock; default: this machine's")
	fs.StringVar(&o.file, "write", "", "write a new `FILE` of /etc/cron.d instead of printing it")
	fs.BoolVar(&o.apply, "apply", false, "put the lines into the crontab of the user who runs this command")
	fs.BoolVar(&o.remove, "remove", false, "remove them from it")
	for _, other := range []string{"write", "user"} {
		c.MarkFlagsMutuallyExclusive("apply", other)
		c.MarkFlagsMutuallyExclusive("remove", other)
	}
	c.MarkFlagsMutuallyExclusive("apply", "remove")
	return c
}

// cronName matches the names of files that cron reads in /etc/cron.d. It ignores other names, such
// as those with a dot.
var cronName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// check returns an error of usage for flags that do not go together.
func (o *crontabOptions) check() error {
	switch {
	case o.User == "" && o.file != "":
		return exit.Usagef("--write %s: the lines of a file in /etc/cron.d name the user who runs them: give --user", o.file)
	case o.file != "" && !cronName.MatchString(filepath.Base(o.file)):
		return exit.Usagef("--write %s: cron ignores a file of /etc/cron.d whose name has more than letters, digits, _ and -",
			o.file)
	}
	return nil
}

// lines returns the lines of the crontab. above is the user's crontab, in which they are a block.
func (o *crontabOptions) lines(ctx context.Context, f *factory.Factory, above string) (install.File, error) {
	s, err := o.fillMachine(ctx, f)
	if err != nil {
		return install.File{}, err
	}
	s.Now = time.Now() //nolint:forbidigo // no slot is compared with it, a zone's rules are
	if s.Zone, err = cronZone(o.timezone); err != nil {
		return install.File{}, err
	}
	if name := s.ZoneAt(above); name != "" {
		if s.Above, err = time.LoadLocation(name); err != nil {
			return install.File{}, fmt.Errorf("the crontab sets CRON_TZ above these lines: %w: mend it with: crontab -e", err)
		}
	}
	file, err := install.Crontab(s)
	return file, installError(f, err)
}

// cronZone returns the zone with a name, or that of this machine's clock.
func cronZone(name string) (*time.Location, error) {
	if name == "" {
		zone, err := install.MachineZone()
		if err != nil {
			return nil, fmt.Errorf("%w; give it by --timezone", err)
		}
		return zone, nil
	}
	zone, err := crontab.Zone("", name)
	if err != nil {
		return nil, exit.Usagef("--timezone: %w", err)
	}
	return zone, nil
}

func runCrontab(ctx context.Context, f *factory.Factory, o *crontabOptions) error {
	if o.apply || o.remove {
		return installCrontab(ctx, f, o)
	}
	return printCrontab(ctx, f, o)
}

func printCrontab(ctx context.Context, f *factory.Factory, o *crontabOptions) error {
	file, err := o.lines(ctx, f, "")
	if err != nil {
		return err
	}
	if err := o.checkUser(ctx, f); err != nil {
		return err
	}
	if o.file != "" {
		o.write, file.Path = filepath.Dir(o.file), filepath.Base(o.file)
		if _, err := os.Stat(o.write); err != nil {
			return fmt.Errorf("find the directory of --write: %w", err)
		}
	}
	return deliver(f, &o.installOptions, []install.File{file})
}

// checkUser looks whether --user exists and can read the configuration file that the lines name. It
// refuses to write lines that cannot work. Lines that are printed may be for another machine. A file
// that does not exist yet is a warning, too.
func (o *crontabOptions) checkUser(ctx context.Context, f *factory.Factory) error {
	if o.User == "" {
		return nil
	}
	file := cmp.Or(f.Loaded().File, factory.UsualConfig)
	bad := doctor.CheckAccess(o.User, file)
	switch _, err := os.Stat(file); {
	case bad == nil:
		return nil
	case o.file != "" && !errors.Is(err, fs.ErrNotExist):
		return exit.Usagef("--user %s: %s: %s", o.User, bad.What, bad.Do)
	}
	f.Log().WarnContext(ctx, "cron cannot run these lines yet: "+bad.What, "do", bad.Do) //nolint:sloglint // for a person
	return nil
}

// installCrontab puts the block into the user's crontab, or removes it, and shows what has changed.
func installCrontab(ctx context.Context, f *factory.Factory, o *crontabOptions) error {
	s, err := o.machine(f)
	if err != nil {
		return err
	}
	tab, err := findCrontab()
	if err != nil {
		return err
	}
	text, err := tab.read(ctx)
	if err != nil {
		return err
	}
	block := install.File{Path: "crontab"}
	if o.apply {
		if block, err = o.lines(ctx, f, text); err != nil {
			return err
		}
	}
	merged, err := s.Merge(text, block.Text)
	if err != nil {
		return fmt.Errorf("change the crontab of %s: %w", tab.user, err)
	}
	if merged.Text != text {
		if err := tab.replace(ctx, merged.Text); err != nil {
			return err
		}
	}
	return f.Say([]install.File{block}, toldChange(tab.user, o.remove, block.Text, merged)...)
}

// toldChange tells in lines how a crontab was changed.
func toldChange(user string, remove bool, block string, merged install.Merged) (lines []string) {
	gone, come := strings.SplitAfter(merged.Old, "\n"), strings.SplitAfter(block, "\n")
	for _, line := range gone {
		if line != "" && !slices.Contains(come, line) {
			lines = append(lines, "- "+strings.Map(plain.Printable, strings.TrimRight(line, "\r\n")))
		}
	}
	for _, line := range come {
		if line != "" && !slices.Contains(gone, line) {
			lines = append(lines, "+ "+strings.TrimRight(line, "\n"))
		}
	}
	switch {
	case remove && merged.Old == "":
		lines = append(lines, "nothing to do: the crontab of "+user+" does not have this block")
	case remove && merged.Text == "":
		lines = append(lines, "removed the crontab of "+user+", which had nothing else")
	case remove:
		lines = append(lines, "removed from the crontab of "+user+"; its other lines are as they were")
	case len(lines) == 0:
		lines = append(lines, "nothing to do: the crontab of "+user+" has these lines")
	default:
		lines = append(lines, "installed in the crontab of "+user+"; its other lines are as they were")
	}
	for _, other := range merged.Others {
		lines = append(lines, "another block stays: "+strings.Map(plain.Printable, other))
	}
	return lines
}

// userCrontab is the crontab of the user who runs this process, by way of crontab(1).
type userCrontab struct{ program, user string }

func findCrontab() (userCrontab, error) {
	program, err := exec.LookPath("crontab")
	if err != nil {
		return userCrontab{}, fmt.Errorf("crontab(1) is missing: install cron, or let systemd run the slots: %w", err)
	}
	me, err := user.Current()
	if err != nil {
		return userCrontab{}, fmt.Errorf("find the user who runs this: %w", err)
	}
	return userCrontab{program, me.Username}, nil
}

// noCrontab matches the error of crontab -l for a user without a crontab, as Debian, cronie and
// BusyBox print it.
var noCrontab = regexp.MustCompile(`^(crontab: )?(no crontab for \S+|can't open '[^/']+': No such file or directory)$`)

// read returns the text of the crontab. The text is empty if the user has no crontab.
func (t userCrontab) read(ctx context.Context) (string, error) {
	out, said, err := t.run(ctx, "-l")
	if err != nil && noCrontab.MatchString(said) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the crontab of %s, which stays as it is: crontab -l: %s",
			t.user, cmp.Or(said, err.Error()))
	}
	return out, nil
}

// replace replaces the whole crontab, or removes it if the text is empty.
func (t userCrontab) replace(ctx context.Context, text string) error {
	if text != "" {
		return t.write(ctx, text)
	}
	if _, said, err := t.run(ctx, "-r"); err != nil {
		return fmt.Errorf("remove the crontab of %s, which stays as it is: crontab -r: %s", t.user, cmp.Or(said, err.Error()))
	}
	return nil
}

// write makes a text the crontab. crontab(1) gets a file, and not a pipe that could break in the
// middle.
func (t userCrontab) write(ctx context.Context, text string) (err error) {
	file, err := os.CreateTemp("", "crontab")
	if err != nil {
		return fmt.Errorf("write the new crontab: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(file.Name())) }()
	_, err = file.WriteString(text)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write the new crontab: %w", err)
	}
	if _, said, err := t.run(ctx, file.Name()); err != nil {
		return fmt.Errorf("install the crontab of %s, which stays as it is: crontab: %s", t.user, cmp.Or(said, err.Error()))
	}
	return nil
}

// run runs crontab(1), and returns what it prints and what it complains of.
func (t userCrontab) run(ctx context.Context, args ...string) (out, said string, err error) {
	var stdout, stderr bytes.Buffer
	c := exec.CommandContext(ctx, t.program, args...)
	c.Env = append(os.Environ(), "LC_ALL=C")
	c.Stdout, c.Stderr = &stdout, &stderr
	err = c.Run()
	return stdout.String(), strings.TrimSpace(stderr.String()), err
}
