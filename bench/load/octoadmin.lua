-- Claims a name and releases it, again and again, with the bearer token in TOKEN.
-- NAMES says among how many.
-- A connection sends whatever is next: the release of a claim that was granted, or a new claim.
local headers = { ["Authorization"] = "Bearer " .. os.getenv("TOKEN"), ["Content-Type"] = "application/json" }
local turn, number, names = os.getenv("TURN"), 0, tonumber(os.getenv("NAMES") or "5000")
local granted, first, last = {}, 1, 0
local threads = {}
steps_done, failed = 0, 0

function setup(thread)
  table.insert(threads, thread)
end

function request()
  if first <= last then
    local lease = granted[first]
    granted[first] = nil
    first = first + 1
    return wrk.format("POST", "/locks/" .. lease[1] .. "/release", headers, '{"lease_id":"' .. lease[2] .. '"}')
  end
  number = (number + 1) % names
  return wrk.format("POST", "/locks/job-" .. turn .. "-" .. number .. "/acquire", headers, '{"ttl_seconds":60,"metadata":"host=runner-7"}')
end

function response(status, _, body)
  local lease = body:match('"lease_id":"([^"]+)"')
  if lease then
    steps_done = steps_done + 1
    last = last + 1
    granted[last] = { body:match('"name":"([^"]+)"'), lease }
  elseif status == 200 and body == "null" then
    steps_done = steps_done + 1
  else
    failed = failed + 1
  end
end

function done()
  print("steps " .. threads[1]:get("steps_done") .. " failed " .. threads[1]:get("failed"))
end
