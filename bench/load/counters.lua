-- Counts the requests of a run; wrk calls setup and done. Every script loads this and calls count for each response.
local threads = {}
succeeded, failed = 0, 0

function count(success)
  if success then
    succeeded = succeeded + 1
  else
    failed = failed + 1
  end
end

function setup(thread)
  table.insert(threads, thread)
end

function done()
  print("succeeded " .. threads[1]:get("succeeded") .. " failed " .. threads[1]:get("failed"))
end
