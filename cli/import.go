package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/checkpoint"
	"github.com/agentarbor/arbor/internal/chatform"
	"github.com/agentarbor/arbor/internal/render"
)

// maxImport bounds what is imported, in bytes.
const maxImport = 64 << 20

func (p *program) importCommand() *cobra.Command {
	var name, to string
	cmd := &cobra.Command{
		Use:   "import FILE|-",
		Short: "Create a session from the messages of another program",
		Long: `Creates a session from messages in the format of chat completions: a JSON array, or one
message per line. Everything that the assistant says is attributed to the agent of
--agent. The command prints the id of the new session.`,
		Args: exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.importMessages(cmd.Context(), args[0], name, to)
		},
	}
	cmd.Flags().StringVar(&name, "agent", "", "attribute the assistant's messages to the agent `NAME`, the root of your tree")
	cmd.Flags().StringVar(&to, "to", "", "name the new session `ID` (default: random)")
	return cmd
}

func (p *program) importMessages(ctx context.Context, file, speaker, id string) error {
	if speaker == "" {
		return usagef("--agent is missing: name the agent that said what the assistant says, which is the root of your tree")
	}
	if err := agent.CheckName(speaker); err != nil {
		return usagef("--agent: %w", err)
	}
	to, err := sessionKey(id)
	if err != nil {
		return err
	}
	data, err := p.readAll(file)
	if err != nil {
		return err
	}
	name := file
	if name == "-" {
		name = "standard input"
	}
	messages, system, err := chatform.Read(data)
	if err != nil {
		return usagef("%s: %w", name, err)
	}
	if p.place.db == memoryDB {
		return usagef("--db %s stores nothing that could be continued: give a file", memoryDB)
	}
	db, err := p.openDB(ctx, true)
	if err != nil {
		return err
	}
	sessions, err := checkpoint.New(db.Store)
	if err != nil {
		return err
	}
	err = sessions.Import(ctx, to, speaker, messages)
	switch {
	case errors.Is(err, agent.ErrConflict):
		return usagef("session %q exists already: give another id with --to", to.ID)
	case errors.Is(err, agent.ErrBadInput) && system > 0:
		return usagef("%s, without %s: %w", name, render.Count(system, "system message"), err)
	case errors.Is(err, agent.ErrBadInput):
		return usagef("%s: %w", name, err)
	case err != nil:
		return err
	}
	news := "has " + render.Count(len(messages), "message")
	if system > 0 {
		news += fmt.Sprintf("; %s left out, because agents have instructions of their own", render.Count(system, "system message"))
	}
	return p.begun(ctx, db, to, news)
}

// readAll reads a file, or standard input for "-".
func (p *program) readAll(name string) ([]byte, error) {
	in := p.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, usageError{err}
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	if in == nil {
		return nil, nil
	}
	data, err := io.ReadAll(io.LimitReader(in, maxImport+1))
	switch {
	case err != nil:
		return nil, usagef("%s cannot be read: %w", name, err)
	case len(data) > maxImport:
		return nil, usagef("%s is longer than %d MiB", name, maxImport>>20)
	}
	return data, nil
}
