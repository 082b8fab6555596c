-- Claims a name out of NAMES and releases it, over and over, with the bearer token TOKEN.
-- A free connection sends the release of a granted claim if there is one, otherwise a new claim.
dofile(os.getenv("LOAD") .. "/counters.lua")
local headers = { ["Authorization"] = "Bearer " .. os.getenv("TOKEN"), ["Content-Type"] = "application/json" }
local run, number, names = os.getenv("RUN"), 0, tonumber(os.getenv("NAMES") or "5000")
local granted, first, last = {}, 1, 0

function request()
  if first <= last then
    local lease = granted[first]
    granted[first] = nil
    first = first + 1
    return wrk.format("POST", "/locks/" .. lease[1] .. "/release", headers, '{"lease_id":"' .. lease[2] .. '"}')
  end
  number = (number + 1) % names
  return wrk.format("POST", "/locks/job-" .. run .. "-" .. number .. "/acquire", headers,
    '{"ttl_seconds":60,"metadata":"host=runner-7"}')
end

function response(status, _, body)
  local lease = body:match('"lease_id":"([^"]+)"')
  if lease then
    last = last + 1
    granted[last] = { body:match('"name":"([^"]+)"'), lease }
  end
  count(lease or status == 200 and body == "null")
end
