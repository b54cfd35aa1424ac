// Devserver is a Temporal server in one process, for tests: all four services, a namespace named default, and one
// partition per task queue, because with more of them a task of a nearly empty queue may wait for seconds. It stores
// its data in memory, or in a SQLite file that survives it.
//
// It uses eight ports, the first of them for clients. They stay the same after a restart: a server that finds other
// ports in its file's list of members would look for itself there.
//
// It ends when its standard input does, so that it never outlives the process that started it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"

	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	tlog "go.temporal.io/server/common/log"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/schema/sqlite"
	"go.temporal.io/server/temporal"
)

func main() {
	port := flag.Int("port", 7233, "the first of eight ports; clients connect to it")
	file := flag.String("file", "", "the SQLite `FILE` that keeps everything; without one it is kept in memory")
	level := flag.String("log", "error", "the least `LEVEL` that is logged: debug, info, warn, error")
	flag.Parse()
	log.SetFlags(0)
	if err := run(*port, *file, *level); err != nil {
		log.Fatal("devserver: ", err)
	}
}

func run(port int, file, level string) error {
	db := &config.SQL{PluginName: sqliteplugin.PluginName, DatabaseName: file, ConnectAttributes: map[string]string{"mode": "rwc", "_journal_mode": "wal", "_synchronous": "full"}}
	if file == "" {
		db.DatabaseName, db.ConnectAttributes = "devserver", map[string]string{"mode": "memory", "cache": "shared"}
	} else if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		if err := sqlite.SetupSchema(db); err != nil {
			return fmt.Errorf("making %s: %w", file, err)
		}
	}
	namespace, err := sqlite.NewNamespaceConfig("active", "default", false, nil)
	if err != nil {
		return err
	}
	if err := sqlite.CreateNamespaces(db, namespace); err != nil {
		return fmt.Errorf("making the namespace default: %w", err)
	}
	s, err := temporal.NewServer(
		temporal.WithConfig(settings(port, db)),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithLogger(tlog.NewZapLogger(tlog.BuildZapLogger(tlog.Config{Stdout: false, Level: level}))),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithDynamicConfigClient(dynamicconfig.StaticClient{
			dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():  1,
			dynamicconfig.MatchingNumTaskqueueWritePartitions.Key(): 1,
		}),
	)
	if err != nil {
		return err
	}
	if err := s.Start(); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return s.Stop()
}

func settings(port int, db *config.SQL) *config.Config {
	const host = "127.0.0.1"
	client := fmt.Sprintf("%s:%d", host, port)
	services := make(map[string]config.Service)
	for i, name := range []string{"frontend", "history", "matching", "worker"} {
		services[name] = config.Service{RPC: config.RPC{GRPCPort: port + i, MembershipPort: port + 4 + i, BindOnIP: host}}
	}
	return &config.Config{
		Global: config.Global{Membership: config.Membership{BroadcastAddress: host}},
		Persistence: config.Persistence{
			DefaultStore:     sqliteplugin.PluginName,
			VisibilityStore:  sqliteplugin.PluginName,
			NumHistoryShards: 1,
			DataStores:       map[string]config.DataStore{sqliteplugin.PluginName: {SQL: db}},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        "active",
			CurrentClusterName:       "active",
			ClusterInformation:       map[string]cluster.ClusterInformation{"active": {Enabled: true, InitialFailoverVersion: 1, RPCAddress: client}},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Services:            services,
		Archival: config.Archival{
			History:    config.HistoryArchival{State: config.ArchivalDisabled},
			Visibility: config.VisibilityArchival{State: config.ArchivalDisabled},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: config.ArchivalDisabled},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: config.ArchivalDisabled},
		}},
		PublicClient: config.PublicClient{HostPort: client},
	}
}
