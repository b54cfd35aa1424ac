package cli

import (
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/tools"
)

// TestHelp: each command has a text, each command that can run has examples, in which only flags and arguments stand that it has; and
// no text is of a command that does not exist.
func TestHelp(t *testing.T) {
	serves := func(*runner.Runner, string, tools.By, access.Options, *access.Limit, *slog.Logger) (MCPServer, error) {
		return nil, nil
	}
	f := &factory.Factory{MCP: &MCP{Server: serves}, Output: factory.Output{Name: "arbor", Streams: Streams{Getenv: func(string) string { return "" }}}}
	left := pages(f)
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		_, name, _ := strings.Cut(cmd.CommandPath(), " ")
		delete(left, name)
		require.NotEmpty(t, cmd.Short, name)
		if !cmd.HasSubCommands() && name != "help" && !strings.HasPrefix(name, "completion ") {
			require.NotEmpty(t, cmd.Example, name)
		}
		for line := range strings.Lines(cmd.Example) {
			line, _, _ = strings.Cut(line, " > ")
			words := regexp.MustCompile(`"[^"]*"|'[^']*'|\S+`).FindAllString(line[strings.LastIndex(line, "| ")+1:], -1)
			found, args, err := cmd.Root().Find(words[1:])
			require.NoError(t, err, line)
			require.Equal(t, cmd, found, line)
			require.NoError(t, cmd.ParseFlags(args), line)
			require.NoError(t, cmd.ValidateArgs(cmd.Flags().Args()), line)
		}
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(command(f))
	require.Empty(t, left)
}
