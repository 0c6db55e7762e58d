"""Statements that create the tables of a group of hubs. Each hub runs all of them when it joins.

A released table is never changed here: add a column with `ALTER TABLE … ADD COLUMN IF NOT EXISTS`.
"""

from __future__ import annotations

TABLES = """
CREATE TABLE IF NOT EXISTS hub_group (one boolean PRIMARY KEY DEFAULT true CHECK (one), key bytea NOT NULL);
CREATE TABLE IF NOT EXISTS hub_member (
  id text PRIMARY KEY, mark text NOT NULL, address text NOT NULL, version text NOT NULL, state text NOT NULL,
  heartbeat timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS hub_session (
  digest text PRIMARY KEY, hub text NOT NULL, owner text NOT NULL, mode text NOT NULL,
  messages bytea NOT NULL);
CREATE INDEX IF NOT EXISTS hub_session_hub ON hub_session (hub);
CREATE TABLE IF NOT EXISTS hub_lease (server text PRIMARY KEY, hub text NOT NULL);
CREATE TABLE IF NOT EXISTS hub_counter (
  one boolean PRIMARY KEY DEFAULT true CHECK (one), last bigint NOT NULL);
INSERT INTO hub_counter (last) VALUES (0) ON CONFLICT DO NOTHING;
CREATE UNLOGGED TABLE IF NOT EXISTS hub_bucket (name text PRIMARY KEY, full_at float8 NOT NULL);
CREATE TABLE IF NOT EXISTS hub_key (
  id text PRIMARY KEY, hash bytea NOT NULL, name text NOT NULL, allow text NOT NULL, deny text NOT NULL,
  read_only boolean NOT NULL, profile text NOT NULL, tier text NOT NULL,
  created float8 NOT NULL, expires float8, used float8, revoked float8, number bigint NOT NULL);
CREATE UNIQUE INDEX IF NOT EXISTS hub_key_name ON hub_key (name) WHERE revoked IS NULL;
CREATE INDEX IF NOT EXISTS hub_key_number ON hub_key (number);
CREATE TABLE IF NOT EXISTS hub_job (
  hub text NOT NULL, address text NOT NULL, job text NOT NULL, running boolean NOT NULL, state bytea NOT NULL,
  told timestamptz NOT NULL, cancel boolean NOT NULL DEFAULT false, PRIMARY KEY (hub, job));
CREATE TABLE IF NOT EXISTS hub_tool_use (
  hub text NOT NULL, holder text NOT NULL, tool text NOT NULL, weight float8 NOT NULL,
  PRIMARY KEY (hub, holder, tool));
CREATE TABLE IF NOT EXISTS hub_usage (
  hub text NOT NULL, day text NOT NULL, key text NOT NULL, client text NOT NULL, server text NOT NULL,
  tool text NOT NULL, label text NOT NULL, calls bigint NOT NULL, ok bigint NOT NULL, failed bigint NOT NULL,
  refused bigint NOT NULL, limited bigint NOT NULL, cancelled bigint NOT NULL, timed bigint NOT NULL,
  ms float8 NOT NULL, bytes bigint NOT NULL, saved bigint NOT NULL, buckets integer[] NOT NULL,
  counts bigint[] NOT NULL, PRIMARY KEY (hub, day, key, client, server, tool));
CREATE INDEX IF NOT EXISTS hub_usage_day ON hub_usage (day);
CREATE TABLE IF NOT EXISTS hub_profile (name text PRIMARY KEY, change bytea NOT NULL, number bigint NOT NULL);
CREATE TABLE IF NOT EXISTS hub_approval (
  id text PRIMARY KEY, number bigint GENERATED ALWAYS AS IDENTITY, approval bytea NOT NULL);
CREATE TABLE IF NOT EXISTS hub_audit_log (
  hub text PRIMARY KEY, address text NOT NULL, first bigint NOT NULL, identity bytea NOT NULL,
  bytes bigint NOT NULL, oldest bigint NOT NULL, moved timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS hub_audit (
  hub text NOT NULL, seq bigint NOT NULL, number bigint GENERATED ALWAYS AS IDENTITY, time bigint NOT NULL,
  type text NOT NULL, key text NOT NULL, label text NOT NULL, client text NOT NULL, face text NOT NULL,
  server text NOT NULL, name text NOT NULL, outcome text NOT NULL, line text NOT NULL,
  PRIMARY KEY (hub, seq));
CREATE UNIQUE INDEX IF NOT EXISTS hub_audit_number ON hub_audit (number);
CREATE INDEX IF NOT EXISTS hub_audit_time ON hub_audit (time DESC, number DESC);
"""
