package a2aserver

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/internal/cardjson"
	"github.com/agentarbor/arbor/agent"
)

// Card returns the card of a tenant's tree. The tenant "" is the server's own tree. It requires [WithURL].
func (s *Server) Card(tenant string) (*sdk.AgentCard, error) {
	return s.cardAt(tenant, s.publicURL())
}

// cardAt describes a tenant's tree as an A2A 1.0 agent (section 4.4.1) at a base URL without a trailing slash. The skills
// are the agents that a conversation can reach: the root, and every agent that transfers or routes lead to from there. An
// agent that only works inside a workflow is not a skill. The card contains the name, the description and the path of each
// of these agents, and nothing else about them. Equal trees give equal cards.
func (s *Server) cardAt(tenant, base string) (*sdk.AgentCard, error) {
	t := s.trees[tenant]
	switch {
	case t == nil:
		return nil, fmt.Errorf("a2aserver: unknown tenant %q", tenant)
	case base == "":
		return nil, errors.New("a2aserver: the card needs the public URL of the server")
	}
	tree := t.turns.Runner().Tree()
	root := tree.Root().Agent
	card := &sdk.AgentCard{
		Name:        root.Name(),
		Description: cmp.Or(root.Description(), root.Name()),
		Version:     cmp.Or(s.card.Version, "0"),
		Provider:    s.card.Provider,
		Capabilities: sdk.AgentCapabilities{
			Streaming: true, PushNotifications: s.hooks != nil, ExtendedAgentCard: s.auth != nil,
			Extensions: []sdk.AgentExtension{{
				URI:         a2a.Extension,
				Description: "Metadata that says which agent of the tree speaks, and which agents a message went through.",
			}},
		},
		SupportedInterfaces: []*sdk.AgentInterface{
			{URL: base + "/rpc", ProtocolBinding: sdk.TransportProtocolJSONRPC, ProtocolVersion: sdk.Version, Tenant: tenant},
			{URL: base, ProtocolBinding: sdk.TransportProtocolHTTPJSON, ProtocolVersion: sdk.Version, Tenant: tenant},
		},
		DefaultInputModes:  slices.Clone(s.inputModes()),
		DefaultOutputModes: slices.Clone(outputModes),
	}
	for _, i := range s.more {
		i.Tenant = cmp.Or(i.Tenant, tenant)
		if port, alone := strings.CutPrefix(i.URL, ":"); alone {
			if u, err := url.Parse(base); err == nil {
				i.URL = net.JoinHostPort(u.Hostname(), port)
			}
		}
		card.SupportedInterfaces = append(card.SupportedInterfaces, &i)
	}
	if s.compat != nil {
		legacy := base + "/rpc"
		if tenant != "" {
			legacy = base + "/" + tenant + "/rpc"
		}
		// It is the last one, so that clients that support 1.0 use 1.0.
		card.SupportedInterfaces = append(card.SupportedInterfaces,
			&sdk.AgentInterface{URL: legacy, ProtocolBinding: sdk.TransportProtocolJSONRPC, ProtocolVersion: "0.3", Tenant: tenant})
	}
	if s.auth != nil {
		card.SecuritySchemes = maps.Clone(s.auth.Schemes())
	}
	for _, name := range slices.Sorted(maps.Keys(card.SecuritySchemes)) {
		card.SecurityRequirements = append(card.SecurityRequirements, sdk.SecurityRequirements{name: {}})
	}
	for _, n := range reachableNodes(tree) {
		name := n.Agent.Name()
		card.Skills = append(card.Skills, sdk.AgentSkill{
			ID: name, Name: name, Description: cmp.Or(n.Agent.Description(), name), Tags: []string{n.Path},
		})
	}
	if _, err := cardjson.Tree(card); err != nil { // for example with a scheme of an unknown type
		return nil, fmt.Errorf("a2aserver: the card has no JSON form: %w", err)
	}
	return card, nil
}

// reachableNodes returns the nodes that a conversation can reach, in tree order.
func reachableNodes(tree *agent.Tree) []*agent.Node {
	seen := map[*agent.Node]bool{tree.Root(): true}
	for next := []*agent.Node{tree.Root()}; len(next) > 0; next = next[1:] {
		n := next[0]
		if n.Properties.Workflow {
			continue // a workflow calls its children and never transfers to them
		}
		ways := slices.Clone(n.Targets())
		for _, r := range n.Routes() {
			ways = append(ways, r.To)
		}
		for _, to := range ways {
			if !seen[to] {
				seen[to] = true
				next = append(next, to)
			}
		}
	}
	var nodes []*agent.Node
	for n := range tree.Walk() {
		if seen[n] {
			nodes = append(nodes, n)
		}
	}
	return nodes
}
