package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/checkpoint"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/chatform"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/sessionform"
	"github.com/agentarbor/arbor/internal/visible"
)

func exportCommand(f *factory.Factory) *cobra.Command {
	var until atFlag
	var format, files string
	cmd := &cobra.Command{
		Use:   "export ID",
		Short: "Export a session for other programs or for people",
		Long: `Exports a session, whole or up to a position:

  jsonl   the stored events, one per line
  md      a Markdown document
  html    a self-contained page
  openai  the messages in the format of chat completions, as a JSON array
  case    a case for eval: the user's messages, who answered, which tools were called`,
		Args: factory.Exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return exportSession(cmd.Context(), f, args[0], until, format, files)
		},
	}
	until.add(cmd, "export up to position `SEQ` (default: the end)")
	cmd.Flags().StringVarP(&format, "format", "f", "jsonl", "export in this `FORMAT`: jsonl, md, html, openai or case")
	cmd.Flags().StringVar(&files, "files", "", "also write the session's files to `DIR`")
	return cmd
}

func exportSession(ctx context.Context, f *factory.Factory, id string, until atFlag, format, files string) error {
	if _, ok := sessionform.Formats()[format]; !ok {
		return factory.Usagef("--format %s: jsonl, md, html, openai and case are possible", visible.Line(format))
	}
	s, at, err := openAt(ctx, f, id, until)
	if err != nil {
		return err
	}
	if files != "" {
		made, err := s.filesOf(ctx, at)
		if err != nil {
			return err
		}
		for _, e := range made {
			d := e.Data.(*event.File)
			if d.URL != "" {
				continue
			}
			if _, err := factory.Put(ctx, factory.StoredSession{DB: s.db, Key: s.Key}.FileBytes, files, d); err != nil {
				return err
			}
		}
	}
	return sessionform.Export(f.Stdout, format, factory.ShownID(s.Key), s.Seq, func() iter.Seq2[*event.Event, error] { return s.until(ctx, at) })
}

// maxImport bounds what is imported, in bytes.
const maxImport = 64 << 20

func importCommand(f *factory.Factory) *cobra.Command {
	var name, to string
	cmd := &cobra.Command{
		Use:   "import FILE|-",
		Short: "Create a session from the messages of another program",
		Long: `Creates a session from messages in the format of chat completions: a JSON array, or one
message per line. Everything that the assistant says is attributed to the agent of
--agent. The command prints the id of the new session.`,
		Args: factory.Exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return importMessages(cmd.Context(), f, args[0], name, to)
		},
	}
	cmd.Flags().StringVar(&name, "agent", "", "attribute the assistant's messages to the agent `NAME`, the root of your tree")
	cmd.Flags().StringVar(&to, "to", "", "name the new session `ID` (default: random)")
	return cmd
}

func importMessages(ctx context.Context, f *factory.Factory, file, speaker, id string) error {
	if speaker == "" {
		return factory.Usagef("--agent is missing: name the agent that said what the assistant says, which is the root of your tree")
	}
	if err := agent.CheckName(speaker); err != nil {
		return factory.Usagef("--agent: %w", err)
	}
	to, err := factory.SessionKey(id)
	if err != nil {
		return err
	}
	data, err := readAll(f, file)
	if err != nil {
		return err
	}
	name := file
	if name == "-" {
		name = "standard input"
	}
	messages, system, err := chatform.Read(data)
	if err != nil {
		return factory.Usagef("%s: %w", name, err)
	}
	if f.Place.DB == factory.MemoryDB {
		return factory.Usagef("--db %s stores nothing that could be continued: give a file", factory.MemoryDB)
	}
	db, err := f.OpenDB(ctx, true)
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
		return factory.Usagef("session %q exists already: give another id with --to", to.ID)
	case errors.Is(err, agent.ErrBadInput) && system > 0:
		return factory.Usagef("%s, without %s: %w", name, render.Count(system, "system message"), err)
	case errors.Is(err, agent.ErrBadInput):
		return factory.Usagef("%s: %w", name, err)
	case err != nil:
		return err
	}
	news := "has " + render.Count(len(messages), "message")
	if system > 0 {
		news += fmt.Sprintf("; %s left out, because agents have instructions of their own", render.Count(system, "system message"))
	}
	return begun(ctx, f, db, to, news)
}

// readAll reads a file, or standard input for "-".
func readAll(f *factory.Factory, name string) ([]byte, error) {
	in := f.Stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, factory.Usage(err)
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	if in == nil {
		return nil, nil
	}
	data, err := io.ReadAll(io.LimitReader(in, maxImport+1))
	switch {
	case err != nil:
		return nil, factory.Usagef("%s cannot be read: %w", name, err)
	case len(data) > maxImport:
		return nil, factory.Usagef("%s is longer than %d MiB", name, maxImport>>20)
	}
	return data, nil
}
