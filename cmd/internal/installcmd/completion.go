package installcmd

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/internal/spoken"
)

// Shells are the shells that install completion writes a script for.
var Shells = []string{"bash", "fish", "powershell", "zsh"}

func newCmdCompletion(f *factory.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Write the script by which bash, fish, powershell or zsh completes this binary's commands",
		Long: `Write a completion script for a shell to stdout. It completes the commands of this binary, their flags, and
the names of jobs, schedules, slots and consumers in the database. SHELL is bash, fish, powershell or zsh. The script of
bash needs the package bash-completion.`,
		Example: `  source <(prescient install completion bash)  # in this shell
  prescient install completion zsh > "${fpath[1]}/_` + f.Name + `"
  prescient install completion fish > ~/.config/fish/completions/` + f.Name + `.fish`,
		Annotations: map[string]string{cli.NeedsNoConfig: ""},
		Args:        cli.Exactly("SHELL"),
		RunE: func(c *cobra.Command, args []string) error {
			return writeCompletion(c.Root(), f.Out, args[0])
		},
	}
}

func writeCompletion(root *cobra.Command, w io.Writer, shell string) error {
	switch shell {
	case "bash":
		return root.GenBashCompletionV2(w, true)
	case "zsh":
		return root.GenZshCompletion(w)
	case "powershell":
		return root.GenPowerShellCompletionWithDesc(w)
	case "fish":
		// cobra's script evaluates what was typed so far, which may have a name from the database
		// in it. The script has to read each word as one: see
		// https://github.com/spf13/cobra/pull/2095.
		var script strings.Builder
		if err := root.GenFishCompletion(&script, true); err != nil {
			return err
		}
		_, err := io.WriteString(w,
			strings.Replace(script.String(), "(commandline -opc)", "(commandline -opc | string escape)", 1))
		return err
	}
	return exit.Usagef("unknown shell %q: want %s", shell, spoken.OrList(Shells))
}
