-- Renews leases one by one. LEASES is a file with a name and a lease id on each line.
local headers = { ["Authorization"] = "Bearer " .. os.getenv("TOKEN"), ["Content-Type"] = "application/json" }
local leases, at = {}, 0
local threads = {}
steps_done, failed = 0, 0

function init()
  for line in io.lines(os.getenv("LEASES")) do
    local name, lease = line:match("(%S+) (%S+)")
    leases[#leases + 1] = wrk.format("POST", "/locks/" .. name .. "/renew", headers, '{"lease_id":"' .. lease .. '"}')
  end
end

function setup(thread)
  table.insert(threads, thread)
end

function request()
  at = at % #leases + 1
  return leases[at]
end

function response(status)
  if status == 200 then
    steps_done = steps_done + 1
  else
    failed = failed + 1
  end
end

function done()
  print("steps " .. threads[1]:get("steps_done") .. " failed " .. threads[1]:get("failed"))
end
