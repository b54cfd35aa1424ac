package agentfile

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/confined"
	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/router"
)

// checkRouterFile makes the router in a YAML file the tree. Its agents are in the same folder.
func (l *loader) checkRouterFile(file string) {
	f, err := l.agentsIn(".")
	if err != nil {
		l.report.add(file, pos{}, "the agents in the folder of the router cannot be read: %s", confined.Reason(err))
		return
	}
	t := f.tree(file)
	l.report.problems = append(l.report.problems, t.problems...)
	l.root = t.root
}

// route returns the name of the specialist that a router's file names, or "".
func (d *definition) route(i item) string {
	if i.value == agent.Human {
		return agent.Human
	}
	meant := ""
	for _, e := range d.children {
		switch i.value {
		case e.child.name:
			return e.child.name
		case e.as, e.child.base:
			meant = e.child.name
		}
	}
	return meant
}

// checkRouter reports the problems of a router whose specialists are known.
func (l *modelCache) checkRouter(r *report, d *definition) {
	k := d.router
	known := append(namesOf(d.near(false, false)), agent.Human)
	for _, i := range k.targets() {
		if d.route(i) == "" && !slices.ContainsFunc(d.subagents, func(o item) bool { return o.value == i.value }) {
			r.add(d.file, i.at, "there is no specialist %q%s", i.value, cmp.Or(nearest.Hint(i.value, known), "; possible are "+strings.Join(known, ", ")))
		}
	}
	d.checkErrorCycles(r)
	var signals []router.Option
	c, err := l.intents(d)
	switch {
	case err != nil:
		r.add(d.file, k.signals.at, "signals.intent: %s", strings.TrimPrefix(err.Error(), "router: "))
	case c != nil:
		signals = append(signals, router.Signals(c))
	}
	var trial []router.Rule
	var places []pos
	for _, leaf := range k.leaves {
		if leaf.intent != "" && c == nil {
			if k.signals.at == (pos{}) {
				r.add(d.file, leaf.at, "no signal gives the intent %q: write signals: {intent: …} with examples or a model", leaf.intent)
			}
			continue
		}
		trial, places = append(trial, router.When(leaf.when).ToHuman("trial")), append(places, leaf.at)
	}
	var wrong *router.Error
	if _, err := router.New("trial", append(signals, router.Rules(trial...), router.Default(router.Human("trial")))...); !errors.As(err, &wrong) {
		return
	}
	for _, problem := range wrong.Problems { // each problem begins with "rule N: "
		rule, text, _ := strings.Cut(strings.TrimPrefix(problem, "rule "), ": ")
		if n, err := strconv.Atoi(rule); err == nil && n < len(places) {
			r.add(d.file, places[n], "%s", strings.ReplaceAll(text, "give one by Signals", "write signals: {"+string(router.KindIntent)+": …}"))
		}
	}
}

// checkErrorCycles reports cycles among the specialists' targets after an error.
func (d *definition) checkErrorCycles(r *report) {
	next := map[string]string{}
	for _, o := range d.router.onError {
		next[d.route(item{value: o.of})] = d.route(o.to)
	}
	for _, o := range d.router.onError {
		first := d.route(item{value: o.of})
		for chain := []string{first}; next[chain[len(chain)-1]] != ""; {
			if chain = append(chain, next[chain[len(chain)-1]]); chain[len(chain)-1] == first || len(chain) > len(next)+1 {
				r.add(d.file, o.to.at, "onError runs in a circle, %s: the last agent must have no onError, or its onError must be %s", strings.Join(chain, " → "), agent.Human)
				delete(next, chain[len(chain)-2])
				break
			}
		}
	}
}

// intents makes the classifier in a router's file, once. It returns nil if the file has none.
func (l *modelCache) intents(d *definition) (router.Classifier, error) {
	k, s := d.router, &d.router.signals
	if k.classifier != nil || s.model == "" && s.examples == nil {
		return k.classifier, nil
	}
	var err error
	if s.examples != nil {
		k.classifier, err = router.HeuristicIntent(s.examples)
	} else {
		labels := s.labels
		for _, leaf := range k.leaves {
			if leaf.intent != "" && s.labels == nil && !slices.ContainsFunc(labels, func(o router.Label) bool { return o.Name == leaf.intent }) {
				labels = append(labels, router.Label{Name: leaf.intent})
			}
		}
		if s.labels == nil {
			labels = append(labels, router.Label{Name: "other", Description: "anything else"})
		}
		model, failed := l.modelOf(s.model)
		if failed != nil {
			return nil, failed
		}
		if k.classifier, err = router.ModelIntent(model, labels, nil); err == nil && s.deadline == 0 {
			err = errors.New("a model needs a deadline, after which a message is routed without it: write signals: {deadline: 2s, intent: …}")
		}
	}
	if err != nil {
		k.classifier = nil
	} else if s.deadline > 0 {
		k.classifier = router.Within(s.deadline, k.classifier)
	}
	return k.classifier, err
}

func (l *loader) routerAgent(r *report, d *definition, sources map[string]Source) (agent.Agent, error) {
	agents, targets, fallbacks := map[string]agent.Agent{}, map[string]*router.Target{}, map[string]item{}
	for _, e := range d.children {
		if agents[e.child.name] = l.build(r, e.child, sources); agents[e.child.name] == nil {
			return nil, nil // already reported
		}
	}
	for _, o := range d.router.onError {
		fallbacks[d.route(item{value: o.of})] = o.to
	}
	var target func(i item, why string) *router.Target
	target = func(i item, why string) *router.Target {
		name := d.route(i)
		if name == agent.Human {
			l.people = true
			return router.Human(why)
		}
		if targets[name] == nil {
			var opts []router.TargetOption
			if to, present := fallbacks[name]; present {
				opts = append(opts, router.OnError(target(to, name+" has failed")))
			}
			targets[name] = router.Specialist(agents[name], opts...)
		}
		return targets[name]
	}
	opts := []router.Option{router.Description(d.description)}
	for _, e := range d.children {
		opts = append(opts, router.Specialists(target(item{value: e.child.name}, "")))
	}
	for _, rule := range d.router.rules {
		why := cmp.Or(rule.reason, rule.when.String())
		made := router.When(rule.when).To(target(rule.to, why))
		opts = append(opts, router.Rules(made.Because(rule.reason)))
	}
	opts = append(opts, router.Default(target(d.router.fallback, "no rule matches")))
	if d.router.sticky {
		opts = append(opts, router.Sticky())
	}
	if c, err := l.intents(d); err != nil {
		return nil, err
	} else if c != nil {
		opts = append(opts, router.Signals(c))
	}
	return router.New(d.name, opts...)
}
