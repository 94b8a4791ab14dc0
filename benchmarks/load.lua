-- wrk: the lines of a file in turn, as bodies of POST requests; at the end one line of JSON.
--   wrk -t1 -c8 -d10s -s load.lua http://127.0.0.1:8765/predict -- bodies.jsonl

local threads = {}

function setup(thread)
  table.insert(threads, thread)
end

function init(args)
  sent, at, ok, busy, other = {}, 0, 0, 0, 0
  for line in io.lines(args[1]) do
    table.insert(sent, wrk.format("POST", nil, { ["Content-Type"] = "application/json" }, line))
  end
end

function request()
  at = at % #sent + 1
  return sent[at]
end

function response(status)
  if status == 200 then ok = ok + 1 elseif status == 503 then busy = busy + 1 else other = other + 1 end
end

local function sum(name)
  local total = 0
  for _, thread in ipairs(threads) do total = total + thread:get(name) end
  return total
end

function done(summary, latency)
  local e = summary.errors
  io.write(string.format(
    '{"ok": %d, "busy": %d, "failed": %d, "seconds": %.3f, "p50_ms": %.2f, "p95_ms": %.2f, "p99_ms": %.2f}\n',
    sum("ok"), sum("busy"), sum("other") + e.connect + e.read + e.write + e.timeout, summary.duration / 1e6,
    latency:percentile(50) / 1e3, latency:percentile(95) / 1e3, latency:percentile(99) / 1e3))
end
