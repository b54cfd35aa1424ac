package wire

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// route is the handler for a path, with the ids in it.
type route struct {
	kind    routeKind
	methods map[string]string // the operation of each HTTP method in HTTP+JSON
	task    string            // the task's id, unescaped
	config  string            // the push configuration's id, unescaped
}

type routeKind int

const (
	routeNone routeKind = iota
	routeCard
	routeRPC
	routeREST
)

// Reserved path segments, which cannot be names of tenants.
var reservedSegments = []string{".well-known", "rpc", "message:send", "message:stream", "tasks", "extendedAgentCard"}

// routeOf returns the route and the tenant of a URL. It unescapes each segment separately, so that ids may contain
// escaped slashes, dots and colons.
func (f *frontHandler) routeOf(u *url.URL) (r route, tenant string) {
	segments := strings.Split(strings.TrimPrefix(u.EscapedPath(), "/"), "/")
	if r = f.match(segments); r.kind != routeNone || len(segments) < 2 {
		return r, ""
	}
	tenant, err := url.PathUnescape(segments[0])
	if err != nil || !slices.Contains(f.Tenants, tenant) {
		return route{}, ""
	}
	return f.match(segments[1:]), tenant
}

// match returns the route of a path without its tenant (A2A 1.0, sections 5.3 and 11.3).
func (f *frontHandler) match(segments []string) route {
	plain := make([]string, len(segments))
	for i, s := range segments {
		var err error
		if plain[i], err = url.PathUnescape(s); err != nil {
			return route{}
		}
	}
	rest := func(methods map[string]string) route { return route{kind: routeREST, methods: methods} }
	switch n := len(plain); {
	case n == 2 && plain[0] == ".well-known" && (plain[1] == "agent-card.json" || f.Legacy != nil && plain[1] == "agent.json"):
		return route{kind: routeCard, methods: map[string]string{"GET": "", "HEAD": ""}}
	case plain[0] == "rpc" && (n == 1 || n == 2 && plain[1] == ""):
		return route{kind: routeRPC, methods: map[string]string{"POST": ""}}
	case n == 1 && plain[0] == "message:send":
		return rest(map[string]string{"POST": "SendMessage"})
	case n == 1 && plain[0] == "message:stream":
		return rest(map[string]string{"POST": "SendStreamingMessage"})
	case n == 1 && plain[0] == "extendedAgentCard":
		return rest(map[string]string{"GET": "GetExtendedAgentCard", "HEAD": "GetExtendedAgentCard"})
	case n == 1 && plain[0] == "tasks":
		return rest(map[string]string{"GET": "ListTasks", "HEAD": "ListTasks"})
	case plain[0] != "tasks" || n < 2 || plain[1] == "":
		return route{}
	case n == 2:
		return matchTask(segments[1])
	case plain[2] != "pushNotificationConfigs":
		return route{}
	case n == 3:
		return route{kind: routeREST, task: plain[1], methods: map[string]string{
			"GET": "ListTaskPushNotificationConfigs", "HEAD": "ListTaskPushNotificationConfigs", "POST": "CreateTaskPushNotificationConfig",
		}}
	case n == 4 && plain[3] != "":
		return route{kind: routeREST, task: plain[1], config: plain[3], methods: map[string]string{
			"GET": "GetTaskPushNotificationConfig", "HEAD": "GetTaskPushNotificationConfig", "DELETE": "DeleteTaskPushNotificationConfig",
		}}
	}
	return route{}
}

// matchTask returns the route for an escaped segment with a task id and an optional action. A colon of the id may be
// escaped or not: only known actions end an id.
func matchTask(segment string) route {
	r := route{kind: routeREST, methods: map[string]string{"GET": "GetTask", "HEAD": "GetTask"}}
	if id, ok := cutAction(segment, "cancel"); ok {
		segment, r.methods = id, map[string]string{"POST": "CancelTask"}
	} else if id, ok := cutAction(segment, "subscribe"); ok {
		// The specification's text has POST, its Protocol Buffers have GET.
		segment, r.methods = id, map[string]string{"POST": "SubscribeToTask", "GET": "SubscribeToTask"}
	}
	r.task, _ = url.PathUnescape(segment) // match has unescaped it without an error
	if r.task == "" {
		return route{}
	}
	return r
}

func cutAction(segment, action string) (id string, ok bool) {
	for _, colon := range []string{":", "%3A", "%3a"} {
		if id, ok = strings.CutSuffix(segment, colon+action); ok {
			return id, true
		}
	}
	return segment, false
}

// allow returns the value of the Allow header.
func (r route) allow() string {
	return strings.Join(append(slices.Sorted(maps.Keys(r.methods)), http.MethodOptions), ", ")
}
