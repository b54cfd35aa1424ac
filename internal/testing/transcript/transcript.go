// Package transcript reads the transcripts of runner/testdata: text archives with a tree of agents, the answers of
// their models and the user's messages. The runner's tests play them in process; the tests of servers play the same
// ones through their APIs.
//
// The package is for tests.
package transcript

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/agentarbor/arbor/runner"
)

// Transcript is a txtar file: the agents of a tree, what their models answer,
// what the user says, and then what must come out: the stored events and the
// requests on the wire. Each is played six times, with the models in process and
// behind a real HTTP endpoint, by chat completions and by the Responses API, streamed and
// not, and must come out the same.
//
//	-- agents --       one a line, children indented: NAME [parent] [peers] [back] [each] [decide[=MODEL]] [asks] [TOOL…] [| DESCRIPTION];
//	                   with the word tool it is an agent tool of its parent, with sequential, parallel or loop a workflow of its children,
//	                   with graph one whose nodes are its children, one behind the other, which ask first if they say human
//	-- script --       see package llm/scripted
//	-- user --         one message a line; or /approve CALL, or ? for the first one that waits, /deny CALL REASON, /answer CALL JSON, /resume, in a process of its own
//	-- events --       written by -update
//	-- wire --         written by -update
type Transcript struct {
	File    string
	Archive *txtar.Archive
}

// Name is the name of the file, without its ending.
func (tr *Transcript) Name() string { return strings.TrimSuffix(filepath.Base(tr.File), ".txtar") }

// Section returns a part of the archive, "" if it has no part with the name.
func (tr *Transcript) Section(name string) string {
	for _, f := range tr.Archive.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

// Set replaces a part of the archive.
func (tr *Transcript) Set(name, data string) {
	for i, f := range tr.Archive.Files {
		if f.Name == name {
			tr.Archive.Files[i].Data = []byte(data)
			return
		}
	}
	tr.Archive.Files = append(tr.Archive.Files, txtar.File{Name: name, Data: []byte(data)})
}

// All reads the transcripts whose file names match a pattern, at least one.
func All(t testing.TB, pattern string) []*Transcript {
	t.Helper()
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var all []*Transcript
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		require.NoError(t, err)
		all = append(all, &Transcript{file, archive})
	}
	return all
}

// Decisions parses a line of the user that decides, without its slash. Calls have the names of [Calls].
func Decisions(line string, calls Calls) []runner.Decision {
	verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	call, rest, _ := strings.Cut(rest, " ")
	call = calls.ID(call)
	switch verb {
	case "approve":
		return []runner.Decision{runner.Approve(call)}
	case "deny":
		return []runner.Decision{runner.Deny(call, rest)}
	case "answer":
		return []runner.Decision{runner.Answer(call, json.RawMessage(rest))}
	}
	return nil
}

// Counter returns a function that generates the same ids in every run.
func Counter() func() string {
	var mu sync.Mutex
	n := 0
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		n++
		return "i" + strconv.Itoa(n)
	}
}
