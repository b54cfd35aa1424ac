package inspector_test

import (
	"flag"
	"testing"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/peerfolder"
)

// Browsers sign in with a code or a token, stay signed in over a restart, and sign out.
func TestSigningIn(t *testing.T) {
	t.Parallel()
	play(t, support(t), "signin", nil)
}

// screen is what is looked at: an address, and what must be there before.
type screen map[string]any

// Every screen is looked at in both schemes and three widths: by axe, for what is cut off or overlaps, and for how
// many elements it has. With ARBOR_SHOTS=FOLDER pictures are kept.
func TestScreens(t *testing.T) {
	look := func(name string, make func(testing.TB) *host, screens []screen, more map[string]any) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := make(t)
			given := map[string]any{"world": name, "screens": screens}
			for k, v := range more {
				given[k] = v
			}
			play(t, h, "screens", given)
		})
	}
	look("support", support, []screen{
		{"name": "sessions", "path": "", "text": "My router is slow"},
		{"name": "sessions-filtered", "path": "?f=nothing", "waits": [][2]string{{"heading", "sessions"}}},
		{"name": "talk", "path": "s/s1", "waits": [][2]string{{"button", "approve"}}},
		{"name": "talk-folded", "path": "s/s1", "waits": [][2]string{{"button", "approve"}}, "clicks": [][2]string{{"button", "the part of"}}},
		{"name": "why", "path": "s/s1?sel=ev:6&tab=why", "text": "charged, twice"},
		{"name": "seen", "path": "s/s1?sel=ev:13&tab=seen", "text": "You are billing"},
		{"name": "cost", "path": "s/s1?tab=cost", "text": "cached"},
		{"name": "if", "path": "s/s1?sel=ev:1&tab=if", "text": "What if|say something else"},
		{"name": "failed", "path": "s/failed", "waits": [][2]string{{"log", ""}}, "text": "failed"},
		{"name": "past", "path": "s/s1?at=9", "text": "as it was at 9 of"},
		{"name": "feed", "path": "s/s1/feed", "waits": [][2]string{{"grid", ""}}},
		{"name": "runs", "path": "s/s1/runs", "waits": [][2]string{{"button", "list_charges"}}},
		{"name": "graph", "path": "s/s1/graph", "text": "billing"},
		{"name": "legend", "path": "s/s1", "waits": [][2]string{{"button", "approve"}}, "clicks": [][2]string{{"button", "^legend$"}}},
		{"name": "diff", "path": "diff/s1/edited", "text": "in common"},
		{"name": "tree", "path": "tree", "waits": [][2]string{{"heading", "asked first"}}, "text": "How it routes"},
		{"name": "agent", "path": "tree/support/billing", "waits": [][2]string{{"heading", "asked first"}}, "text": "How it routes"},
		{"name": "usage", "path": "usage", "text": "billing"},
		{"name": "approvals", "path": "approvals", "text": "ch_1004"},
		{"name": "palette", "path": "s/s1", "press": "Control+k", "waits": [][2]string{{"log", ""}}},
		{"name": "keys", "path": "s/s1", "press": "?", "waits": [][2]string{{"log", ""}}},
		{"name": "gone", "path": "s/none", "text": "go to the sessions"},
		{"name": "nowhere", "path": "somewhere/else", "text": "go to the sessions"},
		{"name": "no-position", "path": "s/s1?at=999"},
	}, map[string]any{"expected": []string{"status of 404", "status of 400"}})
	look("office", office, []screen{
		{"name": "router", "path": "graph/front?s=routed", "text": "refund"},
		{"name": "graph", "path": "graph/pipeline?s=analysed", "text": "error-handler"},
		{"name": "desk", "path": "desk", "text": "wants a person"},
		{"name": "why-router", "path": "s/routed?sel=ev:3&tab=why", "text": "rule"},
		{"name": "talk-person", "path": "s/person", "waits": [][2]string{{"log", ""}}},
		{"name": "runs-graph", "path": "s/analysed/runs", "text": "error-handler"},
	}, nil)
	look("clerk", clerk, []screen{
		{"name": "state", "path": "s/drawn?tab=state", "text": "9007199254740993"},
		{"name": "files", "path": "s/drawn?tab=files", "text": "version 2 of 2"},
	}, nil)
	look("big", func(t testing.TB) *host { return big(t, 10_000) }, []screen{
		{"name": "talk", "path": "s/long", "waits": [][2]string{{"log", ""}}},
		{"name": "feed", "path": "s/long/feed", "waits": [][2]string{{"grid", ""}}},
		{"name": "runs", "path": "s/long/runs"},
		{"name": "graph", "path": "s/long/graph"},
		{"name": "tree", "path": "tree", "waits": [][2]string{{"heading", "asked first"}}, "text": "How it routes"},
		{"name": "usage", "path": "usage", "text": "a0"},
	}, nil)
	look("empty", func(t testing.TB) *host { return serve(t, supportWorld(t)) }, []screen{
		{"name": "sessions", "path": "", "text": "curl"},
		{"name": "usage", "path": "usage"},
		{"name": "tree", "path": "tree", "waits": [][2]string{{"heading", "asked first"}}, "text": "How it routes"},
	}, nil)
}

// The page is in the language that the browser asks for or the reader has chosen.
func TestLanguages(t *testing.T) {
	for name, world := range map[string]struct {
		make    func(testing.TB) *host
		screens map[string][]screen
	}{
		"support": {support, map[string][]screen{
			"de": {
				{"name": "sessions", "path": "", "text": "wartet auf eine Entscheidung"},
				{"name": "talk", "path": "s/s1", "text": "Bisher ist nichts geschehen"},
				{"name": "past", "path": "s/s1?at=9", "text": "Stand bei 9 von"},
				{"name": "failed", "path": "s/failed", "text": "Erneut versuchen"},
				{"name": "feed", "path": "s/s1/feed", "text": "Ereignisse"},
				{"name": "runs", "path": "s/s1/runs", "text": "Runde 1"},
				{"name": "graph", "path": "s/s1/graph", "text": "Kästen"},
				{"name": "why", "path": "s/s1?sel=ev:6&tab=why", "text": "durch das Modell"},
				{"name": "seen", "path": "s/s1?sel=ev:13&tab=seen", "text": "verglichen mit"},
				{"name": "cost", "path": "s/s1?tab=cost", "text": "Am langsamsten"},
				{"name": "if", "path": "s/s1?sel=ev:1&tab=if", "text": "etwas anderes sagen"},
				{"name": "state", "path": "s/s1?tab=state", "text": "noch keine Werte"},
				{"name": "files", "path": "s/s1?tab=files", "text": "Die Sitzung als Datei"},
				{"name": "diff", "path": "diff/s1/edited", "text": "Kurz gesagt"},
				{"name": "tree", "path": "tree", "text": "Wie er weitergibt"},
				{"name": "agent", "path": "tree/support/billing", "text": "Wie er weitergibt"},
				{"name": "usage", "path": "usage", "text": "nach Agent"},
				{"name": "approvals", "path": "approvals", "text": "auf deine Entscheidung"},
				{"name": "gone", "path": "s/none", "text": "Zu den Sitzungen"},
			},
			"es": {
				{"name": "sessions", "path": "", "text": "espera una decisión"},
				{"name": "talk", "path": "s/s1", "text": "Todavía no ha pasado nada"},
				{"name": "why", "path": "s/s1?sel=ev:6&tab=why", "text": "por el modelo"},
				{"name": "cost", "path": "s/s1?tab=cost", "text": "Lo más lento"},
				{"name": "if", "path": "s/s1?sel=ev:1&tab=if", "text": "decir otra cosa"},
				{"name": "agent", "path": "tree/support/billing", "text": "Cómo transfiere"},
				{"name": "usage", "path": "usage", "text": "por agente"},
				{"name": "approvals", "path": "approvals", "text": "tu decisión"},
			},
		}},
		"office": {office, map[string][]screen{
			"de": {
				{"name": "router", "path": "graph/front?s=routed", "text": "Letzte Entscheidungen"},
				{"name": "graph", "path": "graph/pipeline?s=analysed", "text": "Wähle einen Knoten"},
				{"name": "desk", "path": "desk", "text": "bei einem Menschen"},
				{"name": "talk-person", "path": "s/person", "text": "wartet auf einen Menschen"},
			},
			"es": {
				{"name": "desk", "path": "desk", "text": "con una persona"},
				{"name": "router", "path": "graph/front?s=routed", "text": "Decisiones recientes"},
			},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, world.make(t), "languages", map[string]any{"world": name, "screens": world.screens})
		})
	}
}

// Every screen can be used at 400 % and in forced colours.
func TestAccess(t *testing.T) {
	for name, world := range map[string]struct {
		make  func(testing.TB) *host
		paths []string
	}{
		"support": {support, []string{"", "s/s1", "s/s1?at=9", "s/failed", "s/s1/feed", "s/s1/runs", "s/s1/graph", "s/s1?sel=ev:6&tab=why", "s/s1?tab=if&sel=ev:1", "diff/s1/edited", "tree", "tree/support/billing", "usage", "approvals", "s/none"}},
		"clerk":   {clerk, []string{"s/drawn?tab=state", "s/drawn?tab=files"}},
		"office":  {office, []string{"graph/front?s=routed", "graph/pipeline?s=analysed", "desk", "s/person"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, world.make(t), "access", map[string]any{"paths": world.paths})
		})
	}
}

// Whatever is said in a session is shown as text, and does nothing else.
func TestHostileContent(t *testing.T) {
	t.Parallel()
	h := hostiles(t)
	events := must.Get(h.log("hostile"))
	play(t, h, "hostile", map[string]any{"last": len(events)})
}

// What happens in a session appears everywhere while it happens: in two windows and for a program, over cut streams,
// and over a restart.
func TestLive(t *testing.T) {
	t.Parallel()
	play(t, support(t), "live", nil)
}

// The five jobs that the page is for, by as many clicks as they may take, and by the keyboard alone.
func TestJobs(t *testing.T) {
	t.Parallel()
	play(t, support(t), "jobs", nil)
}

// In Firefox people do the same: they ask and follow the answer, approve a call, read why, try something else and search.
func TestFirefox(t *testing.T) {
	peerfolder.Browser(t, "firefox-esr")
	for _, script := range []string{"jobs", "search"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			play(t, support(t), script, map[string]any{"browser": "firefox"})
		})
	}
}

// Keys decide about the card that has the focus, nothing acts on what has just moved, and what was decided can be undone
// before it is sent.
func TestCareful(t *testing.T) {
	t.Parallel()
	play(t, support(t), "careful", nil)
}

// The composer takes much at once, or refuses it at once, and shows pasted images.
func TestComposer(t *testing.T) {
	t.Parallel()
	play(t, support(t), "composer", nil)
}

// Before something runs in a fork the page says what, and what it costs.
func TestForks(t *testing.T) {
	t.Parallel()
	play(t, support(t), "forks", nil)
}

// How turns end is said as it is, and what failed can be tried again.
func TestEnds(t *testing.T) {
	t.Parallel()
	play(t, support(t), "ends", nil)
}

// What came of a change of the agents' files is said on every screen.
func TestReloads(t *testing.T) {
	t.Parallel()
	play(t, support(t), "reloads", nil)
}

// Pictures of other hosts are loaded after a click, and tables, long lines and code stay in their place.
func TestAnswers(t *testing.T) {
	t.Parallel()
	play(t, serve(t, echoWorld(t)), "answers", nil)
}

// A server without sessions offers first messages, and says on each screen what to do next.
func TestFirstRun(t *testing.T) {
	t.Parallel()
	play(t, serve(t, supportWorld(t)), "first", nil)
}

// The screen of an agent shows its instructions, its rights, and how it routes.
func TestAgentScreen(t *testing.T) {
	t.Parallel()
	play(t, support(t), "agent", nil)
}

// Tabs of a session show its state, with the writers, and its files, with their versions.
func TestStateAndFiles(t *testing.T) {
	t.Parallel()
	play(t, clerk(t), "kept", nil)
}

// In a workshop the owner changes an agent in a fork and runs a tool by hand; a server without one offers neither.
func TestWorkshop(t *testing.T) {
	t.Parallel()
	play(t, workshop(t, false), "workshop", map[string]any{"workshop": true})
	play(t, workshop(t, true), "workshop", map[string]any{"workshop": true, "restart": true})
	play(t, support(t), "workshop", nil)
}

// The server searches all sessions for words, phrases, agents and states, and the filter is in the address.
func TestSearch(t *testing.T) {
	t.Parallel()
	play(t, support(t), "search", nil)
}

// The page says that the offline model answers, and that this costs nothing.
func TestOffline(t *testing.T) {
	t.Parallel()
	h := serve(t, offlineWorld(t))
	h.say("words", "I was charged twice, please refund the invoice")
	play(t, h, "offline", nil)
}

// A person at the desk answers in one window a user of another window.
func TestDesk(t *testing.T) {
	t.Parallel()
	play(t, office(t), "desk", nil)
}

// A graph at the root is drawn with the edges that were taken, and Why explains them.
func TestGraphAtTheRoot(t *testing.T) {
	t.Parallel()
	h := serve(t, pipelineWorld(t))
	h.say("one", "Please analyse this")
	play(t, h, "rootgraph", nil)
}

// Each of several users sees and decides what they may, and reads plain words about the rest.
func TestRights(t *testing.T) {
	t.Parallel()
	play(t, serve(t, bankWorld(t)), "rights", nil)
}

// budgets has TestBudgets hold times to their goals, on a machine that does nothing else.
var budgets = flag.Bool("budgets", false, "hold the page to the times of its budgets, as medians of five")

// The page stays within its budgets with 500 agents and 10,000 events. Times are bounded by a hundred times the goal,
// because other tests run at the same time, and a machine may be slow.
func TestBudgets(t *testing.T) {
	given := map[string]any{"slack": 100, "repeats": 1}
	if *budgets {
		given = map[string]any{"slack": 1, "repeats": 5}
	} else {
		t.Parallel()
	}
	play(t, big(t, 10_000), "budgets", given)
}
