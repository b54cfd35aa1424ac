package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/access/usersfile"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/cli/internal/watch"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/server"
)

// reloadFlag adds --no-reload to a command whose tree comes from files.
func (p *program) reloadFlag(fs *pflag.FlagSet, off *bool) {
	if !p.embedded() {
		fs.BoolVar(off, "no-reload", false, "do not reload the tree when its files change")
	}
}

// watched are the files of a tree, or why they cannot be watched.
type watched struct {
	folder *watch.Folder
	err    error
}

// watch begins to look at the files of the tree at path, before they are read; nil if it is not
// wanted, or the tree is part of the program.
func (p *program) watch(path string, off bool) *watched {
	if off || p.embedded() {
		return nil
	}
	folder, err := watch.New(folderOf(path), ".md", ".yaml", ".yml")
	if err == nil {
		p.atEnd(func() { _ = folder.Close() })
	}
	return &watched{folder, err}
}

// keepUp calls renew whenever the files have changed, until the command ends, and tells on w what
// came of it. The tree stays as it is if renew fails, which is told once.
func (p *program) keepUp(ctx context.Context, files *watched, w io.Writer, renew func() (*agent.Tree, error)) {
	if files == nil {
		return
	}
	if files.err != nil {
		p.sayTo(w, "changes of the files are not noticed: "+files.err.Error())
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	p.atEnd(func() {
		cancel()
		<-done
	})
	go func() {
		defer close(done)
		told := ""
		for {
			if err := files.folder.Next(ctx); err != nil {
				if ctx.Err() == nil {
					p.sayTo(w, "changes of the files are not noticed any more: "+err.Error())
				}
				return
			}
			tree, err := renew()
			if err == nil {
				told = ""
				p.sayTo(w, fmt.Sprintf("the files have changed: %s with %s from now on", tree.Root().Agent.Name(), render.Count(tree.Len(), "agent")))
				continue
			}
			lines := append([]string{"the files have changed and cannot be used; the tree stays as it was"}, problemLines(err)...)
			if now := strings.Join(lines, "\n"); now != told {
				told = now
				p.sayTo(w, lines...)
			}
		}
	}()
}

// news is what people are told between the turns of a chat. What comes during a turn is told when
// its answer is complete.
type news struct {
	w    io.Writer
	mu   sync.Mutex
	held bool
	kept []byte
}

func (n *news) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.held {
		n.kept = append(n.kept, b...)
		return len(b), nil
	}
	return n.w.Write(b)
}

// hold begins or ends a turn.
func (n *news) hold(on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.held = on; !on && len(n.kept) > 0 {
		_, _ = n.w.Write(n.kept)
		n.kept = nil
	}
}

// folderOf returns the folder that a tree's files are in.
func folderOf(path string) string {
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return path
	}
	if real, err := filepath.EvalSymlinks(path); err == nil { // a file's folder is where it really is
		path = real
	}
	return filepath.Dir(path)
}

// treeProblems returns an error of a reload as clients are told it.
func treeProblems(err error) (all []server.TreeProblem) {
	var files *agentfile.Error
	if errors.As(err, &files) {
		for _, p := range files.Problems {
			all = append(all, server.TreeProblem{File: p.File, Line: p.Line, Message: p.Message})
		}
		return all
	}
	for _, line := range problemLines(err) {
		all = append(all, server.TreeProblem{Message: line})
	}
	return all
}

// problemLines returns an error as lines, one for each problem of files or of a tree.
func problemLines(err error) (lines []string) {
	var tree *agent.TreeError
	var files *agentfile.Error
	var users *usersfile.Error
	switch {
	case errors.As(err, &users):
		for _, problem := range users.Problems {
			lines = append(lines, problem.String())
		}
		return lines
	case errors.As(err, &files):
		return fileProblems(files)
	case errors.As(err, &tree):
		for _, problem := range tree.Problems {
			lines = append(lines, problem.String())
		}
		return lines
	}
	return []string{strings.TrimSpace(err.Error())}
}
