package agentfile

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestTransferKeys runs trees whose files say how their agents transfer. What each model is offered is
// in the script.
func TestTransferKeys(t *testing.T) {
	for name, c := range map[string]struct {
		root, tech, money string // front matter
		script            string
		said              []string // in two turns
		shown             string   // to tech, of what the others' tools did
	}{
		"the defaults": {tech: "transfer: {parent: true}", money: "transfer: {peers: true}", script: `
support: call lookup_order {"id":1234} call transfer_to_agent {"agent_name": "money", "reason": "an order"}
money: expect tools transfer_to_agent call transfer_to_agent {"agent_name": "tech"}
tech: expect tools none "ok"
tech: expect tools transfer_to_agent "fine"
`, said: []string{"tech: ok", "tech: fine"}, shown: `[support] called lookup_order({"id":1234}`},
		"hold": {tech: "transfer: {parent: true, arrival: hold}\nhistory: {facts: 2}", script: `
support: call lookup_order {"id":1234} call transfer_to_agent {"agent_name": "tech", "reason": "an order"}
tech: expect tools none "ok"
tech: expect tools transfer_to_agent "fine"
`, said: []string{"tech: ok", "tech: fine"}, shown: `[support] called lookup_order({"… (9 of 11 bytes are not shown)`},
		"the profile": {root: "transfer: {profile: small}", tech: "transfer: {peers: true, tools: one}", money: "transfer: {peers: true}", script: `
support: expect tools none "?"
support: expect tools lookup_order,transfer_to_money,transfer_to_tech call transfer_to_tech {}
tech: expect tools none "ok"
tech: expect tools none "?"
tech: expect tools transfer_to_agent call transfer_to_agent {"agent_name": "money"}
money: expect tools none "fine"
`, said: []string{"tech: ok", "money: fine"}},
		"the profile below": {tech: "transfer: {parent: true, peers: true, profile: small}", script: `
support: expect tools lookup_order,transfer_to_agent call transfer_to_agent {"agent_name": "tech"}
tech: expect tools none "ok"
tech: expect tools none "?"
tech: expect tools transfer_to_support,transfer_to_money "fine"
`, said: []string{"tech: ok", "tech: fine"}},
	} {
		t.Run(name, func(t *testing.T) {
			script := must.Get(scripted.Parse([]byte(c.script), scripted.WithRecording()))
			tree, err := LoadFS(mapFS(map[string]string{
				"support.md": "---\nmodel: support\nsubagents: [money, tech]\ntools: [lookup_order]\n" + c.root + "\n---\nYou route.",
				"money.md":   "---\nmodel: money\n" + c.money + "\n---\n",
				"tech.md":    "---\nmodel: tech\n" + c.tech + "\n---\n",
			}), ".", testTools(t, "lookup_order"), WithModel(func(name string) (llm.Model, error) { return script.Model(name), nil }))
			require.NoError(t, err)
			r := must.Get(runner.New(tree.Root(), sessiontest.Memory(t)))
			require.Equal(t, c.said, append(say(t, r, "Hi"), say(t, r, "And now?")...))
			require.NoError(t, script.Done())
			seen := ""
			for _, m := range script.Requests("tech")[0].Messages {
				seen += m.PlainText() + "\n"
			}
			require.Contains(t, seen, c.shown)
		})
	}
}
