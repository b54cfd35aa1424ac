// Package telemetry traces turns with OpenTelemetry, after its semantic
// conventions for generative AI: a span for the turn, for each run of an agent,
// each attempt at a model's answer and each call of a tool, and the metrics of
// model calls. [New] makes the interceptor for runner.WithInterceptors.
//
// A transfer has no nesting: the run that hands over, the call of
// transfer_to_agent and the run that takes over are siblings below the turn:
//
//	invoke_workflow support
//	├── invoke_agent support
//	│   └── chat gpt-4o-mini
//	├── execute_tool transfer_to_agent
//	└── invoke_agent billing
//	    ├── chat gpt-4o-mini
//	    ├── execute_tool refund
//	    └── chat gpt-4o-mini
//
// The package imports agent, event and llm, and of OpenTelemetry the API alone: the
// program brings the SDK, the exporters and their settings. It starts no
// goroutine and keeps nothing beyond a turn. What people, models and tools say
// is never recorded unless [WithContent] asks for it; the pages of the
// conventions are named in convention.go, and docs/telemetry.md describes it all.
package telemetry
