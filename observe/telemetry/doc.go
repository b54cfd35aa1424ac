// Package telemetry traces turns with OpenTelemetry and its semantic conventions for generative AI. It creates a span for
// each turn, each run of an agent, each attempt at a model's answer and each call of a tool, and records the metrics of
// model calls. [New] returns the interceptor for runner.WithInterceptors. [Server] returns an observer that measures
// servers.
//
// Transfers do not nest: the run of the agent that transfers, the call of transfer_to_agent and the run of the target are
// siblings below the turn:
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
// The package uses only the API of OpenTelemetry: the program configures the SDK and the exporters. It starts no
// goroutine and keeps no data after a turn. It records texts of people, models and tools only with [WithContent].
// convention.go names the pages of the conventions, and docs/telemetry.md describes all spans and metrics.
package telemetry
